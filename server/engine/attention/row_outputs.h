#pragma once

#include <cstdint>
#include <vector>

#include "server/engine/attention_call.h"
#include "server/engine/attention_mask.h"
#include "server/engine/kernels/buffer.h"
#include "server/engine/onednn/onednn.h"

namespace attention::server {

// The scores of some queries of one sequence and head: [rows, stride], of which the first `keys` columns are keys and
// the others only fill the primitive's shape, as the rows from `rows` to `height` do. height is at most 64.
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

// For each row of weights, 1 / their sum. The sum within the softmax is float32, and its rounding moves all weights of
// a row alike, by up to 10⁻⁷: enough to show in the last digit of the output. Multiplying by this takes it out again.
//
// It also completes a row whose softmax is NaN by definition, since its scores held a NaN or +∞, or nothing but −∞:
// oneDNN makes only some of its weights NaN and the others 0. The correction is then NaN, and so is everything it
// multiplies.
//
// Call after the softmax. `corrections` has room for tile.rows.
void RowCorrections(const ScoreTile& tile, double* corrections);

// True if the call wants its weights in one form or another.
bool WantsWeights(const AttentionCall& call);

// What a caller wants to see of the rows of one sequence and head besides the context: CallOutputs, as far as it is
// about scores and weights. Writes only what was asked for. Points into the call.
class RowOutputs {
 public:
  RowOutputs(const AttentionCall& call, int64_t sequence, int64_t head)
      : call_(call), sequence_(sequence), head_(head) {}

  // A tile of scores whose first column is `first_key`, to one of the outputs [batch, num_heads, q_length, kv_length],
  // or nowhere if that is null.
  void PutScores(const ScoreTile& tile, int64_t first_query, int64_t first_key, float* to) const;

  // The weights of one query: `weights` · correction at `keys`, 0 elsewhere.
  void PutWeights(int64_t query, KeyRange keys, const float* weights, double correction, Buffer& scratch) const;

  // The weights of one query that sees no key: `weight` everywhere.
  void PutEmptyRow(int64_t query, float weight, Buffer& scratch) const;

  void PutLogSumExp(int64_t query, double log_sum_exp) const;

 private:
  // Of [batch, num_heads, q_length].
  int64_t RowIndex(int64_t query) const { return (sequence_ * call_.heads.num_heads + head_) * call_.q_length + query; }
  float* ZeroRow(int64_t query, Buffer& scratch) const;
  void PutRow(int64_t query, const float* row) const;
  void PutTopKeys(int64_t query, const float* row) const;

  const AttentionCall& call_;
  const int64_t sequence_;
  const int64_t head_;
};

// Indices of the `count` largest numbers, the largest first, of equal ones the lower index. REQUIRES: count is not
// above row's size. NaN counts as larger than any number.
std::vector<int64_t> LargestIndices(const float* row, int64_t size, int64_t count);

}  // namespace attention::server
