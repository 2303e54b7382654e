#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "server/engine/attention_mask.h"
#include "server/engine/buffer.h"
#include "server/engine/head_tensor.h"
#include "server/engine/onednn.h"

namespace attention::server {

// One head of a HeadInput of one sequence; `size` numbers a token.
struct HeadRows {
  const HeadInput* tensor = nullptr;
  int64_t sequence = 0;
  int64_t head = 0;
  int64_t size = 0;

  void Read(int64_t first, int64_t count, float* to) const { tensor->Read(sequence, head, first, count, size, to); }
};

// Some keys of one sequence and head with their values, packed for the two products of attention. Used again and again;
// its memory only grows. Not thread-safe.
class PackedHead {
 public:
  // REQUIRES: `range` is not empty.
  void Pack(Onednn& onednn, DType operands, const HeadRows& keys, const HeadRows& values, KeyRange range);

  KeyRange range() const { return range_; }

  // Columns of the scores: the keys of the range, and some that only fill the primitive's shape.
  int64_t columns() const { return columns_; }

  const void* keys() const { return packed_keys_.data(); }      // [head_dim, columns]
  const void* values() const { return packed_values_.data(); }  // [columns, value_head_dim]

  // Values that are not finite as operands are packed as 0 and added here, to the context of one query: weight 0 times
  // NaN would be NaN, and a key that is hidden from one query can be visible to the next in the same product. `weights`
  // are the query's, by column.
  void AddNonFinite(const float* weights, float* context) const;

 private:
  struct NonFinite {
    int64_t column;
    std::vector<float> value;
  };

  void ExtractNonFinite(DType operands, int64_t size, float* values);

  KeyRange range_;
  int64_t columns_ = 0;
  Buffer rows_;
  Buffer packed_keys_;
  Buffer packed_values_;
  std::vector<NonFinite> non_finite_;
};

// The mean of `count` rows from the first on, [rows.size]; zeros if there are none.
std::vector<float> MeanRow(const HeadRows& rows, int64_t count);

}  // namespace attention::server
