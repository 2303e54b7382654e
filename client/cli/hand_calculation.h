#pragma once

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "client/cli/explained_call.h"

namespace attention::cli {

// The lines of the formula for one query row, calculated in float64 from what the line before it gave on the server. So
// each is a check of one step, not of all that led to it.
struct RowByHand {
  std::vector<double> products;      // query · key of each key
  std::vector<double> scores;        // divided by √head_dim
  double largest = 0;                // of the visible scores
  std::vector<double> exponentials;  // exp(score − largest), 0 where hidden; all 1 if no key is visible
  double sum = 0;
  std::vector<double> attn_weights;
  std::vector<double> context;
};

// Products and scores come from the server's query and key, the softmax from its scores, the context from its
// attn_weights and value. REQUIRES: kv_length > 0.
RowByHand CalculateByHand(const ExplainedCall& call, const Spot& spot);

// Largest |by hand − server| over all rows, heads and sequences. Scores of hidden keys count too: the server returns
// them as they were before the mask.
struct Differences {
  double scores = 0;
  double attn_weights = 0;
  double context = 0;
};

Differences CompareByHand(const ExplainedCall& call);

double Dot(absl::Span<const double> a, absl::Span<const double> b);

}  // namespace attention::cli
