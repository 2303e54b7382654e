#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "client/attention_client.h"
#include "client/cli/numbers.h"

namespace attention::cli {

// One query row of one head of one sequence, each counted from 0. All batch axes together count as one axis of
// sequences.
struct Spot {
  int64_t sequence = 0;
  int64_t head = 0;
  int64_t row = 0;
};

// The parts of the request's mask.
struct ExplainedMask {
  std::optional<std::vector<int64_t>> dense_shape;
  std::optional<Diagonal> causal;
  std::optional<SlidingWindow> window;
  std::vector<int64_t> kv_lengths, q_lengths;            // [batch], or empty
  std::optional<Numbers> q_segment_ids, kv_segment_ids;  // [batch…, length] or [length]
};

// One call, request and reply, as numbers. Create checks all shapes against the sizes below, so the accessors only
// require that their indices are in range.
struct ExplainedCall {
  // INTERNAL if the reply lacks a line of the formula, or its shapes contradict each other; INVALID_ARGUMENT if the
  // request contradicts itself. `weight_set` is empty for attention without projections.
  static absl::StatusOr<ExplainedCall> Create(const std::optional<WeightSetInfo>& weight_set,
                                              const AttendRequest& request, const AttendReply& reply);

  std::optional<WeightSetInfo> weight_set;
  HeadAxes axes = {};  // of inputs and output, without a weight set
  int64_t version = 0;

  int64_t batch = 0;  // product of the batch axes
  int64_t q_length = 0;
  int64_t kv_length = 0;
  int64_t num_heads = 0;
  int64_t num_kv_heads = 0;
  int64_t head_dim = 0;
  int64_t value_head_dim = 0;

  double scale = 1;  // of the query
  bool scale_is_default = true;
  std::optional<double> softcap;
  EmptyRows empty_rows = EmptyRows::kUniform;
  bool rounds_to_bfloat16 = false;  // compute_dtype
  ExplainedMask mask;

  Numbers inputs_q;
  std::optional<Numbers> inputs_k, inputs_v, bias;
  std::vector<double> bias_values;       // the bias, broadcast to the scores; empty if there is none
  Numbers query;                         // [batch…, q_length, num_heads, head_dim]
  Numbers key;                           // [batch…, kv_length, num_kv_heads, head_dim]
  Numbers value;                         // [batch…, kv_length, num_kv_heads, value_head_dim]
  Numbers scores;                        // [batch…, num_heads, q_length, kv_length], before soft cap, bias and mask
  std::optional<Numbers> capped_scores;  // the same
  Numbers masked_scores;                 // the same, −∞ at hidden keys
  Numbers attn_weights;                  // the same
  Numbers context;                       // [batch…, q_length, num_heads, value_head_dim]
  Numbers output;  // [batch…, q_length, out_features]; without a weight set in the layout `axes`
  std::optional<Numbers> output_by_head;  // without a weight set: the output in the shape of the context

  // The key and value head of a query head.
  int64_t KvHead(int64_t head) const { return head * num_kv_heads / num_heads; }

  // Rows after q_lengths are not computed: all their numbers are 0.
  bool IsComputed(const Spot& spot) const { return mask.q_lengths.empty() || spot.row < mask.q_lengths[spot.sequence]; }

  // Query and key rows have head_dim numbers, context and value rows value_head_dim. `j` is the key.
  absl::Span<const double> QueryAt(const Spot& spot) const { return Vector(query, spot, spot.row, spot.head); }
  absl::Span<const double> ContextAt(const Spot& spot) const { return Vector(context, spot, spot.row, spot.head); }
  absl::Span<const double> KeyAt(const Spot& spot, int64_t j) const { return Vector(key, spot, j, KvHead(spot.head)); }
  absl::Span<const double> ValueAt(const Spot& spot, int64_t j) const {
    return Vector(value, spot, j, KvHead(spot.head));
  }

  // The spot's row of kv_length numbers.
  absl::Span<const double> ScoresAt(const Spot& spot) const { return KvRow(scores.values, spot); }
  absl::Span<const double> CappedScoresAt(const Spot& spot) const {
    return KvRow(capped_scores ? capped_scores->values : scores.values, spot);
  }
  absl::Span<const double> MaskedScoresAt(const Spot& spot) const { return KvRow(masked_scores.values, spot); }
  absl::Span<const double> AttnWeightsAt(const Spot& spot) const { return KvRow(attn_weights.values, spot); }

  // The bias of key `j`; 0 if there is none.
  double BiasAt(const Spot& spot, int64_t j) const { return bias_values.empty() ? 0 : KvRow(bias_values, spot)[j]; }

  // The out_features numbers of the spot's row, all heads together; without a weight set those of its head.
  absl::Span<const double> OutputAt(const Spot& spot) const;

  bool VisibleAt(const Spot& spot, int64_t j) const {
    return MaskedScoresAt(spot)[j] != -std::numeric_limits<double>::infinity();
  }
  int64_t VisibleKeys(const Spot& spot) const;

  // Row `i` and head `head` of a tensor whose last three axes are [length, heads, width].
  static absl::Span<const double> Vector(const Numbers& tensor, const Spot& spot, int64_t i, int64_t head) {
    const int64_t length = tensor.shape.end()[-3], heads = tensor.shape.end()[-2], width = tensor.shape.end()[-1];
    return absl::MakeConstSpan(tensor.values).subspan(((spot.sequence * length + i) * heads + head) * width, width);
  }

 private:
  absl::Span<const double> KvRow(const std::vector<double>& values, const Spot& spot) const {
    const int64_t row = (spot.sequence * num_heads + spot.head) * q_length + spot.row;
    return absl::MakeConstSpan(values).subspan(row * kv_length, kv_length);
  }
};

}  // namespace attention::cli
