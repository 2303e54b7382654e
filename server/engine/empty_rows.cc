#include "server/engine/empty_rows.h"

#include <iterator>

namespace attention::server {

void EmptyRows::Add(const std::vector<Index>& rows) {
  const absl::MutexLock lock(&mu_);
  count_ += static_cast<int64_t>(rows.size());
  for (const Index& row : rows) {
    if (first_.size() == kKept && *std::prev(first_.end()) < row) continue;
    first_.insert(row);
    if (first_.size() > kKept) first_.erase(std::prev(first_.end()));
  }
}

int64_t EmptyRows::count() const {
  const absl::MutexLock lock(&mu_);
  return count_;
}

std::vector<EmptyRows::Index> EmptyRows::first() const {
  const absl::MutexLock lock(&mu_);
  return {first_.begin(), first_.end()};
}

}  // namespace attention::server
