#include "server/connections/open_connections.h"

#include <sys/stat.h>

#include "absl/time/clock.h"

namespace attention::server {
namespace {

// 0 if the descriptor is closed. A socket's number is not used again while it is open.
uint64_t Inode(int fd) {
  struct stat file;
  return fstat(fd, &file) == 0 && S_ISSOCK(file.st_mode) ? file.st_ino : 0;
}

}  // namespace

bool OpenConnections::Add(int fd) {
  // The kernel gives a descriptor's number again only once it was closed.
  inodes_.erase(fd);
  if (static_cast<int64_t>(inodes_.size()) >= max_connections_) ForgetClosed();
  if (static_cast<int64_t>(inodes_.size()) >= max_connections_) return false;
  inodes_[fd] = Inode(fd);
  return true;
}

void OpenConnections::ForgetClosed() {
  const absl::Time now = absl::Now();
  if (now < next_forget_) return;
  absl::erase_if(inodes_, [](const auto& entry) { return Inode(entry.first) != entry.second; });
  next_forget_ = now + kForgetInterval;
}

}  // namespace attention::server
