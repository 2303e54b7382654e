#include "server/connections/connection_acceptor.h"

#include <fcntl.h>
#include <poll.h>
#include <spdlog/spdlog.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/time/clock.h"

namespace attention::server {
namespace {

constexpr absl::Duration kLogInterval = absl::Seconds(10);

// How long the loop rests if it can neither accept nor refuse.
constexpr int kRestMs = 100;

int OpenSpare() { return open("/dev/null", O_RDONLY | O_CLOEXEC); }

bool IsOutOfResources(int error) { return error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM; }

}  // namespace

ConnectionAcceptor::ConnectionAcceptor(std::vector<ListeningSocket> sockets, int64_t max_connections, Handler handler)
    : sockets_(std::move(sockets)),
      handler_(std::move(handler)),
      stop_fd_(eventfd(0, EFD_CLOEXEC)),
      connections_(max_connections),
      spare_fd_(OpenSpare()),
      thread_([this] { Loop(); }) {}

ConnectionAcceptor::~ConnectionAcceptor() {
  eventfd_write(stop_fd_, 1);
  thread_.join();
  close(stop_fd_);
  if (spare_fd_ >= 0) close(spare_fd_);
}

void ConnectionAcceptor::Loop() {
  std::vector<pollfd> polled = {{stop_fd_, POLLIN, 0}};
  for (const ListeningSocket& socket : sockets_) polled.push_back({socket.fd(), POLLIN, 0});
  while (true) {
    if (poll(polled.data(), polled.size(), -1) < 0) continue;
    if (polled.front().revents != 0) return;
    for (size_t i = 1; i < polled.size(); ++i) {
      if (polled[i].revents != 0) AcceptOne(polled[i].fd);
    }
  }
}

void ConnectionAcceptor::AcceptOne(int listening_fd) {
  const int fd = accept4(listening_fd, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
  if (fd < 0) {
    if (IsOutOfResources(errno)) RefuseOne(listening_fd, errno);
  } else if (connections_.Add(fd)) {
    handler_(fd);
  } else {
    close(fd);
    LogRefusal("as many are open as --max-connections and the limit of open files allow");
  }
}

void ConnectionAcceptor::RefuseOne(int listening_fd, int error) {
  LogRefusal(std::strerror(error));
  if (spare_fd_ >= 0) close(spare_fd_);
  const int fd = accept4(listening_fd, nullptr, nullptr, SOCK_CLOEXEC);
  if (fd >= 0) close(fd);
  spare_fd_ = OpenSpare();
  if (fd >= 0) return;
  pollfd stop = {stop_fd_, POLLIN, 0};
  poll(&stop, 1, kRestMs);
}

void ConnectionAcceptor::LogRefusal(const char* reason) {
  ++refused_;
  const absl::Time now = absl::Now();
  if (now < next_log_) return;
  spdlog::warn("refused new connections: {}; the last one: {}", std::exchange(refused_, 0), reason);
  next_log_ = now + kLogInterval;
}

}  // namespace attention::server
