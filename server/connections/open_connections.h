#pragma once

#include <cstdint>

#include "absl/container/flat_hash_map.h"
#include "absl/time/time.h"

namespace attention::server {

// Counts the open connections, whose sockets gRPC owns and closes without telling. A socket that was closed is
// recognised by its number, which then is free or belongs to another file. Not thread-safe.
class OpenConnections {
 public:
  explicit OpenConnections(int64_t max_connections) : max_connections_(max_connections) {}

  // Counts the connection. False if `max_connections` others are open.
  bool Add(int fd);

 private:
  // Looking at all sockets takes time, so a server that is full does it only this often.
  static constexpr absl::Duration kForgetInterval = absl::Milliseconds(50);

  void ForgetClosed();

  const int64_t max_connections_;
  absl::flat_hash_map<int, uint64_t> inodes_;  // of each socket
  absl::Time next_forget_ = absl::InfinitePast();
};

}  // namespace attention::server
