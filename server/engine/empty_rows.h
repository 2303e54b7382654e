#pragma once

#include <array>
#include <cstdint>
#include <set>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace attention::server {

// The query rows of one call that see no key: how many, and which are the first. Thread-safe: the tiles of a call are
// computed on several threads.
class EmptyRows {
 public:
  // [sequence, head, query], a row of [batch, num_heads, q_length].
  using Index = std::array<int64_t, 3>;

  // How many of them are kept by index.
  static constexpr size_t kKept = 8;

  void Add(const std::vector<Index>& rows) ABSL_LOCKS_EXCLUDED(mu_);

  int64_t count() const ABSL_LOCKS_EXCLUDED(mu_);

  // The first kKept in the order of their indices, whatever the order in which they were added.
  std::vector<Index> first() const ABSL_LOCKS_EXCLUDED(mu_);

 private:
  mutable absl::Mutex mu_;
  int64_t count_ ABSL_GUARDED_BY(mu_) = 0;
  std::set<Index> first_ ABSL_GUARDED_BY(mu_);
};

}  // namespace attention::server
