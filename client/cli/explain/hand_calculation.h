#pragma once

#include <cstdint>
#include <vector>

#include "client/cli/explain/explained_call.h"

namespace attention::cli {

// The lines of the formula for one query row, calculated in float64 from what the line before it gave on the server. So
// each is a check of one step, not of all that led to it. Where the server rounded to bfloat16 before it multiplied,
// both operands are rounded here too.
struct RowByHand {
  std::vector<double> query;     // as it meets the keys: rounded and scaled, or neither
  double factor = 1;             // of the products: the scale, unless `query` has it already
  std::vector<double> products;  // query · key of each key
  std::vector<double> scores;    // times the factor
  std::vector<double> capped_scores;
  std::vector<double> masked_scores;  // −∞ where the server has it: a key may be hidden in many ways
  double largest = 0;                 // of masked_scores
  std::vector<double> exponentials;   // exp(masked_score − largest); 0 where hidden
  double sum = 0;
  std::vector<double> attn_weights;
  std::vector<double> context;
};

// Products and scores come from the server's query and key, capped_scores from its scores, masked_scores from its
// capped_scores (or scores), the softmax from its masked_scores, the context from its attn_weights and value.
// REQUIRES: kv_length > 0, and the row is computed.
RowByHand CalculateByHand(const ExplainedCall& call, const Spot& spot);

// True if the weights and values of a row were rounded before they met. A row that sees no key takes the mean of the
// values as they are.
bool RoundsValues(const ExplainedCall& call, const Spot& spot);

// An operand of a product, as it is or rounded to bfloat16.
double Operand(double value, bool rounds);

// Largest |by hand − server| over all rows, heads and sequences. Scores of hidden keys count too: the server returns
// them as they were before the mask.
struct Differences {
  double scores = 0;
  double capped_scores = 0;
  double masked_scores = 0;
  double attn_weights = 0;
  double context = 0;
};

Differences CompareByHand(const ExplainedCall& call);

}  // namespace attention::cli
