#pragma once

#include <cstdint>
#include <vector>

#include "client/cli/explain/explained_call.h"

namespace attention::cli {

// The lines of the formula for one query row, in float64. Each line is calculated from the server's numbers of the line
// before it, so each checks one step, not all steps before it. If the server rounded the operands of a product to
// bfloat16, so does this calculation.
struct RowByHand {
  std::vector<double> query;     // as multiplied with the keys: scaled and rounded, or neither
  double factor = 1;             // of the products: the scale, unless `query` is scaled
  std::vector<double> products;  // dot products with each key
  std::vector<double> scores;    // products · factor
  std::vector<double> capped_scores;
  std::vector<double> masked_scores;  // −∞ where the server has it, since a key can be hidden in many ways
  double largest = 0;                 // of masked_scores
  std::vector<double> exponentials;   // exp(masked_score − largest); 0 where hidden
  double sum = 0;
  std::vector<double> attn_weights;
  std::vector<double> context;
};

// Calculates products and scores from the server's query and key, capped_scores from its scores, masked_scores from its
// capped_scores (or scores), the softmax from its masked_scores, the context from its attn_weights and value.
// REQUIRES: kv_length > 0, and the row is computed.
RowByHand CalculateByHand(const ExplainedCall& call, const Spot& spot);

// True if the server rounded the weights and values of the row to bfloat16. For a row that sees no key, the context is
// the mean of the unrounded values.
bool RoundsValues(const ExplainedCall& call, const Spot& spot);

// `value`, rounded to bfloat16 if `rounds`.
double Operand(double value, bool rounds);

// The largest |by hand − server| over all rows, heads and sequences. Includes the scores of hidden keys, which the
// server returns as they were before the mask.
struct Differences {
  double scores = 0;
  double capped_scores = 0;
  double masked_scores = 0;
  double attn_weights = 0;
  double context = 0;
};

Differences CompareByHand(const ExplainedCall& call);

}  // namespace attention::cli
