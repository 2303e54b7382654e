#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "server/checkpoint/tensor.h"

namespace attention::server {

// A tensor that is broadcast to [batch, num_heads, q_length, kv_length]. Element (sequence, head, query, key) is
// element batch_offsets[sequence] + head * head_stride + query * q_stride + key * kv_stride of `data`. A stride is 0
// for an axis along which the tensor is broadcast. The bytes belong to the request.
struct ScoresTensor {
  DType dtype = DType::kBool;
  const std::byte* data = nullptr;  // null: no tensor
  std::vector<int64_t> batch_offsets;
  int64_t head_stride = 0;
  int64_t q_stride = 0;
  int64_t kv_stride = 0;
};

// Keys begin … end − 1; empty if end <= begin.
struct KeyRange {
  int64_t begin = 0;
  int64_t end = 0;

  bool empty() const { return end <= begin; }
  int64_t size() const { return empty() ? 0 : end - begin; }
};

// The smallest range that contains both.
inline KeyRange Union(KeyRange a, KeyRange b) {
  if (a.empty()) return b;
  if (b.empty()) return a;
  return {std::min(a.begin, b.begin), std::max(a.end, b.end)};
}

// Larger than every length. It can be added to a length without overflow.
inline constexpr int64_t kUnbounded = int64_t{1} << 61;

// What lengths, causal masks and sliding windows leave visible in one sequence: its first q_length queries, of which
// query i sees keys i + first_offset to i + last_offset, limited to the first kv_length keys.
struct SequenceLimits {
  int64_t q_length = 0;
  int64_t kv_length = 0;
  int64_t first_offset = -kUnbounded;
  int64_t last_offset = kUnbounded;

  KeyRange RangeOf(int64_t query) const {
    return {std::max<int64_t>(0, query + first_offset), std::min(kv_length, query + last_offset + 1)};
  }

  // True if a query sees no key. The ranges move by one key per query, so the first or the last one is empty then.
  bool HasEmptyRow() const { return q_length > 0 && (RangeOf(0).empty() || RangeOf(q_length - 1).empty()); }
};

// Query i sees key j only if their ids are equal. The id of query i of a sequence is q[sequence * q_batch_stride + i].
struct SegmentIds {
  std::vector<int64_t> q;  // empty: no segment ids
  std::vector<int64_t> kv;
  int64_t q_batch_stride = 0;  // 0: the same ids in every sequence
  int64_t kv_batch_stride = 0;

  bool empty() const { return q.empty(); }
};

// Which query sees which key. A key is visible if every part says so.
struct AttentionMask {
  // BOOL; a value other than 0 means visible.
  ScoresTensor dense;

  // One entry per sequence, or one for all. Empty: everything is visible.
  std::vector<SequenceLimits> limits;

  SegmentIds segments;

  // True if every query sees one range of keys, which `limits` describes.
  bool has_only_limits() const { return dense.data == nullptr && segments.empty(); }
};

}  // namespace attention::server
