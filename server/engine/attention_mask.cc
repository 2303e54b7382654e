#include "server/engine/attention_mask.h"

#include <algorithm>

namespace attention::server {

KeyRange Union(KeyRange a, KeyRange b) {
  if (a.empty()) return b;
  if (b.empty()) return a;
  return {std::min(a.begin, b.begin), std::max(a.end, b.end)};
}

KeyRange SequenceLimits::RangeOf(int64_t query) const {
  return {std::max<int64_t>(0, query + first_offset), std::min(kv_length, query + last_offset + 1)};
}

bool SequenceLimits::HasEmptyRow() const {
  return q_length > 0 && (RangeOf(0).empty() || RangeOf(q_length - 1).empty());
}

}  // namespace attention::server
