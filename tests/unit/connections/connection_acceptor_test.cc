#include "server/connections/connection_acceptor.h"

#include <gmock/gmock.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "tests/testing/matchers.h"

namespace attention::server {
namespace {

using ::attention::test::IsOk;

// Collects the accepted connections, and closes them at the end.
class Accepted {
 public:
  ~Accepted() {
    for (const int fd : fds_) close(fd);
  }

  void Add(int fd) {
    absl::MutexLock lock(&mu_);
    fds_.push_back(fd);
  }

  void Await(size_t count) {
    absl::MutexLock lock(&mu_);
    const auto enough = [this, count]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) { return fds_.size() >= count; };
    mu_.Await(absl::Condition(&enough));
  }

 private:
  absl::Mutex mu_;
  std::vector<int> fds_ ABSL_GUARDED_BY(mu_);
};

class ConnectionAcceptorTest : public ::testing::Test {
 protected:
  void Start(int64_t max_connections) {
    auto sockets = OpenListeningSockets("127.0.0.1:0", std::nullopt);
    ASSERT_THAT(sockets, IsOk());
    name_.sin_family = AF_INET;
    name_.sin_port = htons(static_cast<uint16_t>(sockets->front().port()));
    name_.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    acceptor_.emplace(*std::move(sockets), max_connections, [this](int fd) { accepted_.Add(fd); });
  }

  // A socket that is not connected yet.
  int NewSocket() {
    clients_.push_back(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    return clients_.back();
  }

  bool Connect(int fd) const { return connect(fd, reinterpret_cast<const sockaddr*>(&name_), sizeof(name_)) == 0; }

  void TearDown() override {
    acceptor_.reset();
    for (const int fd : clients_) close(fd);
  }

  Accepted accepted_;
  std::optional<ConnectionAcceptor> acceptor_;

 private:
  sockaddr_in name_ = {};
  std::vector<int> clients_;
};

// 0 once the other side has closed the connection; blocks until then.
ssize_t ReadByte(int fd) {
  char byte = 0;
  return read(fd, &byte, 1);
}

TEST_F(ConnectionAcceptorTest, HandsConnectionsToTheHandler) {
  ASSERT_NO_FATAL_FAILURE(Start(8));
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(Connect(NewSocket()));
  accepted_.Await(3);
}

TEST_F(ConnectionAcceptorTest, ClosesConnectionsAboveTheLimit) {
  ASSERT_NO_FATAL_FAILURE(Start(1));
  ASSERT_TRUE(Connect(NewSocket()));
  accepted_.Await(1);
  const int second = NewSocket();
  ASSERT_TRUE(Connect(second));
  EXPECT_EQ(ReadByte(second), 0);
}

TEST_F(ConnectionAcceptorTest, GoesOnAfterItRanOutOfDescriptors) {
  ASSERT_NO_FATAL_FAILURE(Start(1000));
  const int refused = NewSocket(), accepted = NewSocket();
  rlimit before = {};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit low = {static_cast<rlim_t>(accepted) + 1, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &low), 0);
  EXPECT_TRUE(Connect(refused));
  EXPECT_EQ(ReadByte(refused), 0);
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  ASSERT_TRUE(Connect(accepted));
  accepted_.Await(1);
}

TEST_F(ConnectionAcceptorTest, RefusesConnectionsOnceItIsDestroyed) {
  ASSERT_NO_FATAL_FAILURE(Start(8));
  acceptor_.reset();
  EXPECT_FALSE(Connect(NewSocket()));
}

}  // namespace
}  // namespace attention::server
