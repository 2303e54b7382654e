#pragma once

#include <cstdint>
#include <functional>
#include <thread>
#include <vector>

#include "absl/time/time.h"
#include "server/connections/listening_socket.h"
#include "server/connections/open_connections.h"

namespace attention::server {

// Accepts connections on one thread, and hands them to gRPC. gRPC's own listener stops for ever after the first
// connection that it cannot accept because the process has no free descriptor, and it has no limit of connections.
class ConnectionAcceptor {
 public:
  // Takes ownership of a non-blocking socket.
  using Handler = std::function<void(int fd)>;

  // Starts to accept. A connection above `max_connections`, or without a free descriptor, is closed at once.
  ConnectionAcceptor(std::vector<ListeningSocket> sockets, int64_t max_connections, Handler handler);

  // Closes the listening sockets. The handler is not called any more once this returns.
  ~ConnectionAcceptor();

  ConnectionAcceptor(const ConnectionAcceptor&) = delete;
  ConnectionAcceptor& operator=(const ConnectionAcceptor&) = delete;

 private:
  void Loop();
  void AcceptOne(int listening_fd);

  // Accepts and closes a connection by means of the spare descriptor. Otherwise it would wait without an answer.
  void RefuseOne(int listening_fd, int error);

  // Logs a refusal, unless one was logged in the last seconds.
  void LogRefusal(const char* reason);

  const std::vector<ListeningSocket> sockets_;
  const Handler handler_;
  const int stop_fd_;  // readable when the loop is to end

  // Of the thread.
  OpenConnections connections_;
  int spare_fd_;
  int64_t refused_ = 0;  // since the last log line
  absl::Time next_log_ = absl::InfinitePast();

  std::thread thread_;  // declared last, because it starts in the constructor
};

}  // namespace attention::server
