#include "client/cli/explain/hand_calculation.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace attention::cli {
namespace {

void Scores(const ExplainedCall& call, const Spot& spot, RowByHand& row) {
  const absl::Span<const double> query = call.QueryAt(spot);
  row.query.assign(query.begin(), query.end());
  row.factor = call.scale;
  if (call.rounds_to_bfloat16) {
    for (double& number : row.query) {
      number = RoundToBFloat16(static_cast<float>(number) * static_cast<float>(call.scale));
    }
    row.factor = 1;
  }
  for (int64_t j = 0; j < call.kv_length; ++j) {
    double product = 0;
    const absl::Span<const double> key = call.KeyAt(spot, j);
    for (int64_t d = 0; d < call.head_dim; ++d) product += row.query[d] * Operand(key[d], call.rounds_to_bfloat16);
    row.products.push_back(product);
    row.scores.push_back(row.products.back() * row.factor);
    const double score = call.ScoresAt(spot)[j];
    row.capped_scores.push_back(call.softcap ? *call.softcap * std::tanh(score / *call.softcap) : score);
    row.masked_scores.push_back(call.VisibleAt(spot, j) ? call.CappedScoresAt(spot)[j] + call.BiasAt(spot, j)
                                                        : -std::numeric_limits<double>::infinity());
  }
}

void Softmax(const ExplainedCall& call, const Spot& spot, RowByHand& row) {
  if (call.VisibleKeys(spot) == 0) {
    const double weight = call.empty_rows == EmptyRows::kZero ? 0 : 1 / static_cast<double>(call.kv_length);
    row.attn_weights.assign(call.kv_length, weight);
    return;
  }
  const absl::Span<const double> scores = call.MaskedScoresAt(spot);
  row.largest = -std::numeric_limits<double>::infinity();
  for (int64_t j = 0; j < call.kv_length; ++j) row.largest = std::max(row.largest, scores[j]);
  for (int64_t j = 0; j < call.kv_length; ++j) {
    row.exponentials.push_back(call.VisibleAt(spot, j) ? std::exp(scores[j] - row.largest) : 0);
    row.sum += row.exponentials.back();
  }
  for (double exponential : row.exponentials) row.attn_weights.push_back(exponential / row.sum);
}

void WeightedSum(const ExplainedCall& call, const Spot& spot, RowByHand& row) {
  row.context.assign(call.value_head_dim, 0);
  const bool rounds = RoundsValues(call, spot);
  for (int64_t j = 0; j < call.kv_length; ++j) {
    const double weight = Operand(call.AttnWeightsAt(spot)[j], rounds);
    // The value at a hidden key may be NaN or infinity, and 0 times it would make the sum NaN.
    if (weight == 0) continue;
    const absl::Span<const double> value = call.ValueAt(spot, j);
    for (int64_t d = 0; d < call.value_head_dim; ++d) row.context[d] += weight * Operand(value[d], rounds);
  }
}

void UpdateLargest(double& largest, absl::Span<const double> by_hand, absl::Span<const double> server) {
  for (size_t i = 0; i < by_hand.size(); ++i) {
    if (by_hand[i] == server[i] || (std::isnan(by_hand[i]) && std::isnan(server[i]))) continue;
    const double difference = std::abs(by_hand[i] - server[i]);
    if (std::isnan(difference) || difference > largest) largest = difference;
  }
}

}  // namespace

bool RoundsValues(const ExplainedCall& call, const Spot& spot) {
  return call.rounds_to_bfloat16 && call.VisibleKeys(spot) > 0;
}

double Operand(double value, bool rounds) { return rounds ? RoundToBFloat16(value) : value; }

RowByHand CalculateByHand(const ExplainedCall& call, const Spot& spot) {
  RowByHand row;
  Scores(call, spot, row);
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
        if (!call.IsComputed(spot)) continue;
        const RowByHand row = CalculateByHand(call, spot);
        UpdateLargest(differences.scores, row.scores, call.ScoresAt(spot));
        UpdateLargest(differences.capped_scores, row.capped_scores, call.CappedScoresAt(spot));
        UpdateLargest(differences.masked_scores, row.masked_scores, call.MaskedScoresAt(spot));
        UpdateLargest(differences.attn_weights, row.attn_weights, call.AttnWeightsAt(spot));
        UpdateLargest(differences.context, row.context, call.ContextAt(spot));
      }
    }
  }
  return differences;
}

}  // namespace attention::cli
