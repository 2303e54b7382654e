#include "client/cli/hand_calculation.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace attention::cli {
namespace {

void Softmax(const ExplainedCall& call, const Spot& spot, RowByHand& row) {
  const absl::Span<const double> scores = call.ScoresAt(spot);
  const bool sees_no_key = call.SeesNoKey(spot);
  row.largest = -std::numeric_limits<double>::infinity();
  for (int64_t j = 0; j < call.kv_length; ++j) {
    if (call.VisibleAt(spot, j)) row.largest = std::max(row.largest, scores[j]);
  }
  for (int64_t j = 0; j < call.kv_length; ++j) {
    const double hidden = sees_no_key ? 1 : 0;
    row.exponentials.push_back(call.VisibleAt(spot, j) ? std::exp(scores[j] - row.largest) : hidden);
    row.sum += row.exponentials.back();
  }
  for (double exponential : row.exponentials) row.attn_weights.push_back(exponential / row.sum);
}

void WeightedSum(const ExplainedCall& call, const Spot& spot, RowByHand& row) {
  row.context.assign(call.head_dim, 0);
  for (int64_t j = 0; j < call.kv_length; ++j) {
    const double weight = call.AttnWeightsAt(spot)[j];
    // A hidden key may hold NaN or infinity, which times 0 would reach the sum.
    if (weight == 0) continue;
    const absl::Span<const double> value = call.ValueAt(spot, j);
    for (int64_t d = 0; d < call.head_dim; ++d) row.context[d] += weight * value[d];
  }
}

void Widen(double& largest, absl::Span<const double> by_hand, absl::Span<const double> server) {
  for (size_t i = 0; i < by_hand.size(); ++i) {
    if (by_hand[i] == server[i] || (std::isnan(by_hand[i]) && std::isnan(server[i]))) continue;
    const double difference = std::abs(by_hand[i] - server[i]);
    if (std::isnan(difference) || difference > largest) largest = difference;
  }
}

}  // namespace

double Dot(absl::Span<const double> a, absl::Span<const double> b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

RowByHand CalculateByHand(const ExplainedCall& call, const Spot& spot) {
  RowByHand row;
  for (int64_t j = 0; j < call.kv_length; ++j) {
    row.products.push_back(Dot(call.QueryAt(spot), call.KeyAt(spot, j)));
    row.scores.push_back(row.products.back() / std::sqrt(static_cast<double>(call.head_dim)));
  }
  Softmax(call, spot, row);
  WeightedSum(call, spot, row);
  return row;
}

Differences CompareByHand(const ExplainedCall& call) {
  Differences differences;
  if (call.kv_length == 0) return differences;
  for (Spot spot; spot.sequence < call.batch; ++spot.sequence) {
    for (spot.head = 0; spot.head < call.num_heads; ++spot.head) {
      for (spot.row = 0; spot.row < call.q_length; ++spot.row) {
        const RowByHand row = CalculateByHand(call, spot);
        Widen(differences.scores, row.scores, call.ScoresAt(spot));
        Widen(differences.attn_weights, row.attn_weights, call.AttnWeightsAt(spot));
        Widen(differences.context, row.context, call.ContextAt(spot));
      }
    }
  }
  return differences;
}

}  // namespace attention::cli
