#include "server/engine/attention_call.h"

#include <algorithm>
#include <iterator>

namespace attention::server {
namespace {

// Where lengths and diagonals alone hide keys, it is known which rows see none; other parts would have to be read.
bool MayHaveEmptyRow(const AttentionCall& call, const SequenceLimits& limits) {
  return call.mask.dense.data != nullptr || call.bias.data != nullptr || !call.mask.segments.empty() ||
         limits.HasEmptyRow();
}

}  // namespace

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

SequenceLimits AttentionCall::LimitsOf(int64_t sequence) const {
  if (mask.limits.empty()) return {.q_length = q_length, .kv_length = kv_length};
  return mask.limits.size() == 1 ? mask.limits.front() : mask.limits[sequence];
}

SequenceRows NeededRows(const AttentionCall& call, int64_t sequence) {
  const SequenceLimits limits = call.LimitsOf(sequence);
  if (limits.q_length == 0 && !call.options.compute_hidden) return {};
  const bool needs_mean = call.options.empty_rows == EmptyRowRule::kUniform && MayHaveEmptyRow(call, limits);
  SequenceRows rows{limits.q_length, needs_mean || call.options.compute_hidden ? call.kv_length : limits.kv_length};
  if (call.k_is_q) rows.queries = rows.keys = std::max(rows.queries, rows.keys);
  return rows;
}

int64_t CountTokens(const AttentionCall& call) {
  const auto tokens_of = [&](int64_t sequence) {
    const SequenceRows rows = NeededRows(call, sequence);
    return rows.queries + (call.k_is_q ? 0 : rows.keys);
  };
  if (call.mask.limits.size() <= 1) return call.batch == 0 ? 0 : call.batch * tokens_of(0);
  int64_t tokens = 0;
  for (int64_t sequence = 0; sequence < call.batch; ++sequence) tokens += tokens_of(sequence);
  return tokens;
}

}  // namespace attention::server
