#include "server/engine/attention_call.h"

#include <algorithm>
#include <iterator>

namespace attention::server {
namespace {

// Lengths and diagonals tell which rows see no key. The other parts of a mask would have to be read for that.
bool MayHaveEmptyRow(const AttentionCall& call, const SequenceLimits& limits) {
  return !call.mask.has_only_limits() || call.bias.data != nullptr || limits.HasEmptyRow();
}

}  // namespace

void EmptyRowCounter::Add(const std::vector<Index>& rows) {
  const absl::MutexLock lock(&mu_);
  count_ += static_cast<int64_t>(rows.size());
  for (const Index& row : rows) {
    if (first_.size() == kMaxIndices && *std::prev(first_.end()) < row) continue;
    first_.insert(row);
    if (first_.size() > kMaxIndices) first_.erase(std::prev(first_.end()));
  }
}

int64_t EmptyRowCounter::count() const {
  const absl::MutexLock lock(&mu_);
  return count_;
}

std::vector<EmptyRowCounter::Index> EmptyRowCounter::first() const {
  const absl::MutexLock lock(&mu_);
  return {first_.begin(), first_.end()};
}

SequenceLimits AttentionCall::LimitsOf(int64_t sequence) const {
  if (mask.limits.empty()) return {.q_length = shape.q_length, .kv_length = shape.kv_length};
  return mask.limits.size() == 1 ? mask.limits.front() : mask.limits[sequence];
}

NeededTokens TokensOf(const AttentionCall& call, int64_t sequence) {
  const SequenceLimits limits = call.LimitsOf(sequence);
  if (limits.q_length == 0 && !call.options.compute_hidden) return {};
  const bool needs_mean = call.options.empty_rows == EmptyRowRule::kUniform && MayHaveEmptyRow(call, limits);
  const bool needs_all_keys = needs_mean || call.options.compute_hidden;
  NeededTokens tokens{limits.q_length, needs_all_keys ? call.shape.kv_length : limits.kv_length};
  if (call.shape.k_is_q()) tokens.queries = tokens.keys = std::max(tokens.queries, tokens.keys);
  return tokens;
}

int64_t CountTokens(const AttentionCall& call) {
  const auto count = [&](int64_t sequence) {
    const NeededTokens tokens = TokensOf(call, sequence);
    return tokens.queries + (call.shape.k_is_q() ? 0 : tokens.keys);
  };
  const int64_t batch = call.shape.batch;
  if (call.mask.limits.size() <= 1) return batch == 0 ? 0 : batch * count(0);
  int64_t tokens = 0;
  for (int64_t sequence = 0; sequence < batch; ++sequence) tokens += count(sequence);
  return tokens;
}

}  // namespace attention::server
