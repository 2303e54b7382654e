#pragma once

#include <cstdint>
#include <vector>

#include "server/engine/attention_call.h"
#include "server/engine/kernels/buffer.h"

namespace attention::server {

// Working memory for one row of keys.
struct MaskScratch {
  std::vector<uint8_t> visible;
  Buffer bias;
};

// Mask and bias of a call for one sequence and head. Points to the call.
class HeadMask {
 public:
  HeadMask(const AttentionCall& call, int64_t sequence, int64_t head);

  // The keys that have to be computed for some queries: from the first to the last one that the mask shows to any of
  // them, regardless of the bias. All keys if options.compute_hidden.
  KeyRange TileRange(int64_t first_query, int64_t queries) const;

  // Prepares a query's scores at `keys` for the softmax. Adds the bias. Sets the score of every key that the query does
  // not see to −∞, so that its weight is exactly 0, and also the columns after the last key up to `columns`. Returns
  // whether the query sees a key. REQUIRES: `keys` is not empty.
  bool Apply(int64_t query, KeyRange keys, int64_t columns, float* scores, MaskScratch& scratch) const;

 private:
  KeyRange RowRange(int64_t query) const;
  bool Sees(int64_t query, int64_t key) const;
  const uint8_t* VisibleKeys(int64_t query, KeyRange range, MaskScratch& scratch) const;
  const uint8_t* AddBias(int64_t query, KeyRange range, const uint8_t* visible, float* scores,
                         MaskScratch& scratch) const;

  const AttentionCall& call_;
  const SequenceLimits limits_;
  const uint8_t* dense_ = nullptr;  // of this sequence and head; null: no dense mask
  const int64_t* q_segments_ = nullptr;
  const int64_t* kv_segments_ = nullptr;
  int64_t bias_offset_ = 0;
};

}  // namespace attention::server
