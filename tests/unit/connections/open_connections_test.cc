#include "server/connections/open_connections.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

namespace attention::server {
namespace {

int NewSocket() { return socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0); }

TEST(OpenConnectionsTest, LimitsTheOpenConnections) {
  OpenConnections connections(2);
  const int first = NewSocket(), second = NewSocket(), third = NewSocket();
  EXPECT_TRUE(connections.Add(first));
  EXPECT_TRUE(connections.Add(second));
  EXPECT_FALSE(connections.Add(third));
  for (const int fd : {first, second, third}) close(fd);
}

TEST(OpenConnectionsTest, ForgetsClosedConnections) {
  OpenConnections connections(1);
  const int first = NewSocket(), second = NewSocket();
  EXPECT_TRUE(connections.Add(first));
  close(first);
  EXPECT_TRUE(connections.Add(second));
  close(second);
}

TEST(OpenConnectionsTest, CountsANumberThatIsUsedAgainOnce) {
  OpenConnections connections(1);
  for (int i = 0; i < 3; ++i) {
    const int fd = NewSocket();
    EXPECT_TRUE(connections.Add(fd));
    close(fd);
  }
}

TEST(OpenConnectionsTest, DoesNotCountAnotherFileWithTheNumberOfAClosedConnection) {
  OpenConnections connections(1);
  const int first = NewSocket(), second = NewSocket();
  EXPECT_TRUE(connections.Add(first));
  ASSERT_EQ(dup2(STDOUT_FILENO, first), first);
  EXPECT_TRUE(connections.Add(second));
  close(first);
  close(second);
}

}  // namespace
}  // namespace attention::server
