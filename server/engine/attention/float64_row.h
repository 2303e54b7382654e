#pragma once

#include <cstdint>
#include <vector>

#include "server/engine/attention/tile.h"

namespace attention::server {

// Computes rows of a tile in float64 for which float32 has not enough range. Whether a row needs it depends only on
// the query and the keys that it sees. Points to the tile. Allocates memory, because such rows are rare.
class Float64Row {
 public:
  explicit Float64Row(const Tile& tile) : tile_(tile) {}

  // Writes the attention weights of a row of the tile to `weights`, one for each key from `range.begin` on, and its
  // log-sum-exp. `query_norm` is that of the scaled query. Returns false, and writes nothing, if float32 has enough
  // range, or if a visible number is not finite: then the result of float32 arithmetic is right.
  bool Weigh(int64_t row, float query_norm, KeyRange range, float* weights, double* log_sum_exp);

  // Writes the average of the values at `range` with these weights to `context`. It is at most the largest value, so it
  // is finite. Returns false, and writes nothing, if a value is not finite.
  bool Average(KeyRange range, const float* weights, float* context);

 private:
  bool ReadBias(int64_t query, KeyRange range);
  bool NeedsFloat64(float query_norm, KeyRange range) const;
  bool ReadQuery(int64_t query);
  bool Score(KeyRange range);
  const float* Read(const HeadRows& rows, int64_t token);
  bool IsVisible(int64_t index) const;
  void Flag(FormulaTensor tensor) const;

  const Tile& tile_;
  std::vector<float> bias_;    // of each key; −∞ if it is hidden
  std::vector<double> query_;  // scaled, as operand
  std::vector<double> scores_;
  std::vector<float> token_;
};

}  // namespace attention::server
