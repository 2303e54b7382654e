#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"

namespace attention::server {

// A socket that accepts connections. The destructor closes it and removes the file of a unix socket.
class ListeningSocket {
 public:
  // `path` is the file of a unix socket, otherwise empty. `port` is 0 for a unix socket.
  ListeningSocket(int fd, int port, std::string path) : fd_(fd), port_(port), path_(std::move(path)) {}
  ListeningSocket(ListeningSocket&& other) noexcept
      : fd_(std::exchange(other.fd_, -1)), port_(other.port_), path_(std::move(other.path_)) {}
  ~ListeningSocket();

  int fd() const { return fd_; }
  int port() const { return port_; }

 private:
  int fd_;
  const int port_;
  const std::string path_;
};

// Opens the sockets of an address: one for each address of a host name, all with the same port. "0.0.0.0" and "[::]"
// stand for all IPv4 and IPv6 addresses, as in gRPC. No other socket can have the same port. A unix socket gets
// `unix_mode`, if given, before it accepts connections; an unused socket file of another server is replaced.
// UNAVAILABLE, with the address and the system's error, if the server cannot listen. REQUIRES: CheckListenAddress
// accepts the address.
absl::StatusOr<std::vector<ListeningSocket>> OpenListeningSockets(const std::string& address,
                                                                  std::optional<int> unix_mode);

}  // namespace attention::server
