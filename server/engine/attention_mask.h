#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "server/checkpoint/tensor.h"

namespace attention::server {

// A tensor that was broadcast to [batch, num_heads, q_length, kv_length]: the element of one (row of the batch, head,
// query, key) is number batch_offsets[row] + head * head_stride + query * q_stride + key * kv_stride of `data`. A
// stride is 0 where one element holds for all.
struct ScoresTensor {
  DType dtype = DType::kBool;
  const std::byte* data = nullptr;  // null: there is none
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

// The smallest range that holds both.
KeyRange Union(KeyRange a, KeyRange b);

// Beyond every length, and far enough from the ends of int64 to be added to one.
inline constexpr int64_t kUnbounded = int64_t{1} << 61;

// What lengths, causal masks and sliding windows leave of one sequence: its first q_length queries, of which query i
// sees the keys from i + first_offset to i + last_offset among the first kv_length.
struct SequenceLimits {
  int64_t q_length = 0;
  int64_t kv_length = 0;
  int64_t first_offset = -kUnbounded;
  int64_t last_offset = kUnbounded;

  KeyRange RangeOf(int64_t query) const;

  // True if one of the queries sees no key. Of consecutive ranges only the first and the last can be empty alone.
  bool HasEmptyRow() const;
};

// Query i sees key j only if their ids are equal. Element (row of the batch, i) is q[row * q_batch_stride + i].
struct SegmentIds {
  std::vector<int64_t> q;  // empty: there are none
  std::vector<int64_t> kv;
  int64_t q_batch_stride = 0;  // 0 where all rows of the batch have the same ids
  int64_t kv_batch_stride = 0;

  bool empty() const { return q.empty(); }
};

// Which query sees which key: where every part says so.
struct AttentionMask {
  // BOOL; not 0 = attend.
  ScoresTensor dense;

  // One for each row of the batch, or one for all; none: everything is visible.
  std::vector<SequenceLimits> limits;

  SegmentIds segments;
};

}  // namespace attention::server
