#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "client/attention_client.h"
#include "client/cli/numbers.h"

namespace attention::cli {

// One query row of one head of one sequence, each counted from 0. A sequence is one index of all batch axes together.
struct Spot {
  int64_t sequence = 0;
  int64_t head = 0;
  int64_t row = 0;
};

// One call and all that came back, as numbers. Create has checked that every shape is the one that the sizes below
// give it, so the accessors need no further checks than that their indices are in range.
struct ExplainedCall {
  // INTERNAL if the reply lacks a line of the formula, or its shapes contradict each other; INVALID_ARGUMENT if the
  // mask does not broadcast.
  static absl::StatusOr<ExplainedCall> Create(const WeightSetInfo& weight_set, const AttendRequest& request,
                                              const AttendReply& reply);

  WeightSetInfo weight_set;
  Timing timing;
  int64_t version = 0;

  int64_t batch = 0;  // product of the batch axes
  int64_t q_length = 0;
  int64_t kv_length = 0;
  int64_t num_heads = 0;
  int64_t head_dim = 0;

  Numbers inputs_q;
  std::optional<Numbers> inputs_k, inputs_v, mask;
  std::vector<uint8_t> visible;  // the mask, [batch, num_heads, q_length, kv_length]; empty: everything is visible
  Numbers query;                 // [batch…, q_length, num_heads, head_dim]
  Numbers key, value;            // [batch…, kv_length, num_heads, head_dim]
  Numbers scores;                // [batch…, num_heads, q_length, kv_length], before the mask
  Numbers attn_weights;          // the same
  Numbers context;               // [batch…, q_length, num_heads, head_dim]
  Numbers output;                // [batch…, q_length, out_features]

  // head_dim numbers of the spot's query row, or of a key row.
  absl::Span<const double> QueryAt(const Spot& spot) const { return HeadRow(query, spot, q_length, spot.row); }
  absl::Span<const double> ContextAt(const Spot& spot) const { return HeadRow(context, spot, q_length, spot.row); }
  absl::Span<const double> KeyAt(const Spot& spot, int64_t j) const { return HeadRow(key, spot, kv_length, j); }
  absl::Span<const double> ValueAt(const Spot& spot, int64_t j) const { return HeadRow(value, spot, kv_length, j); }

  // kv_length numbers of the spot.
  absl::Span<const double> ScoresAt(const Spot& spot) const { return KvRow(scores, spot); }
  absl::Span<const double> AttnWeightsAt(const Spot& spot) const { return KvRow(attn_weights, spot); }

  // out_features numbers of the spot's row, all heads together.
  absl::Span<const double> OutputAt(const Spot& spot) const;

  bool VisibleAt(const Spot& spot, int64_t j) const { return visible.empty() || visible[KvOffset(spot) + j] != 0; }
  bool SeesNoKey(const Spot& spot) const;

 private:
  int64_t KvOffset(const Spot& spot) const {
    return ((spot.sequence * num_heads + spot.head) * q_length + spot.row) * kv_length;
  }
  absl::Span<const double> KvRow(const Numbers& tensor, const Spot& spot) const {
    return absl::MakeConstSpan(tensor.values).subspan(KvOffset(spot), kv_length);
  }
  absl::Span<const double> HeadRow(const Numbers& tensor, const Spot& spot, int64_t length, int64_t row) const {
    return absl::MakeConstSpan(tensor.values)
        .subspan(((spot.sequence * length + row) * num_heads + spot.head) * head_dim, head_dim);
  }
};

}  // namespace attention::cli
