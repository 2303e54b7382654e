#pragma once

#include <cstdint>
#include <vector>

#include "server/engine/attention_call.h"
#include "server/engine/kernels/buffer.h"
#include "server/engine/onednn/onednn.h"

namespace attention::server {

// Scores of some queries of one sequence and head: [height, stride], at most kTileRows rows. The first `rows` rows and
// `keys` columns are scores; the rest fills the shape of the primitive. Does not own the memory.
struct ScoreTile {
  float* scores = nullptr;
  int64_t rows = 0;
  int64_t height = 0;
  int64_t keys = 0;
  int64_t stride = 0;

  float* row(int64_t index) const { return scores + index * stride; }
};

// scores = softcap · tanh(scores / softcap). NaN stays NaN.
void CapScores(Onednn& onednn, float softcap, const ScoreTile& tile, Buffer& scratch);

// corrections[row] = 1 / Σ weights of the row, for tile.rows rows. Call it after the softmax and multiply each row by
// its correction.
//
// The softmax sums in float32, which shifts all weights of a row by up to 10⁻⁷, enough to change the last digit of the
// output. The correction removes that error.
//
// It also completes rows whose softmax is NaN by definition, because their scores contain NaN or +∞ or only −∞. oneDNN
// sets only some of their weights to NaN and the others to 0. The correction is then NaN, and so is the whole row.
void RowCorrections(const ScoreTile& tile, double* corrections);

// Writes the extra outputs of a call that concern scores and weights, for one sequence and head. Writes only those that
// the call requests. Points to the call.
class RowOutputs {
 public:
  RowOutputs(const AttentionCall& call, int64_t sequence, int64_t head)
      : shape_(call.shape),
        outputs_(call.extra_outputs),
        top_k_(call.options.top_k),
        sequence_(sequence),
        head_(head) {}

  // Copies a tile of scores, whose first column is `first_key`, to `to` [batch, num_heads, q_length, kv_length]; does
  // nothing if `to` is null.
  void PutScores(const ScoreTile& tile, int64_t first_query, int64_t first_key, float* to) const;

  // The weights of a query: `weights` · correction at `keys`, 0 elsewhere.
  void PutWeights(int64_t query, KeyRange keys, const float* weights, double correction, Buffer& scratch) const;

  // The weights of a query that sees no key: `weight` at every key.
  void PutEmptyRow(int64_t query, float weight, Buffer& scratch) const;

  void PutLogSumExp(int64_t query, double log_sum_exp) const;

 private:
  // Index into [batch, num_heads, q_length].
  int64_t RowIndex(int64_t query) const {
    return (sequence_ * shape_.heads.num_heads + head_) * shape_.q_length + query;
  }
  float* ZeroRow(int64_t query, Buffer& scratch) const;
  void PutRow(int64_t query, const float* row) const;
  void PutTopKeys(int64_t query, const float* row) const;

  const AttentionShape& shape_;
  const ExtraOutputs& outputs_;
  const int64_t top_k_;
  const int64_t sequence_;
  const int64_t head_;
};

// Indices of the `count` largest numbers in descending order; of equal numbers the lower index is first. NaN counts as
// larger than any number. REQUIRES: count <= size.
std::vector<int64_t> LargestIndices(const float* row, int64_t size, int64_t count);

}  // namespace attention::server
