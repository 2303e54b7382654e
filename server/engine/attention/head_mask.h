#pragma once

#include <cstdint>
#include <vector>

#include "server/engine/attention_call.h"
#include "server/engine/attention_mask.h"
#include "server/engine/kernels/buffer.h"

namespace attention::server {

// Memory for one row of keys.
struct MaskScratch {
  std::vector<uint8_t> visible;
  Buffer bias;
};

// Mask and bias of one call as one sequence and head see them. Points into the call.
class HeadMask {
 public:
  HeadMask(const AttentionCall& call, int64_t sequence, int64_t head);

  // Keys that a tile has to look at: from the first to the last that one of its queries sees, whatever the bias hides.
  // All of them if the call wants to know what is hidden, too.
  KeyRange TileRange(int64_t first_query, int64_t queries) const;

  // Makes what the softmax sees of a query's scores at `keys`: adds the bias, and replaces the score of every key that
  // the query does not see, and the columns behind the last key up to `columns`, by −∞, so that their weight is exactly
  // 0. Returns whether the query sees a key. REQUIRES: `keys` is not empty.
  bool Apply(int64_t query, KeyRange keys, int64_t columns, float* scores, MaskScratch& scratch) const;

 private:
  KeyRange RowRange(int64_t query) const;
  bool Sees(int64_t query, int64_t key) const;
  const uint8_t* VisibleKeys(int64_t query, KeyRange range, MaskScratch& scratch) const;
  const uint8_t* AddBias(int64_t query, KeyRange range, const uint8_t* visible, float* scores,
                         MaskScratch& scratch) const;

  const AttentionCall& call_;
  const SequenceLimits limits_;
  const uint8_t* dense_ = nullptr;  // of this sequence and head; null: none
  const int64_t* q_segments_ = nullptr;
  const int64_t* kv_segments_ = nullptr;
  int64_t bias_offset_ = 0;
};

}  // namespace attention::server
