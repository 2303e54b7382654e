#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <set>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "server/checkpoint/layer_parameters.h"
#include "server/checkpoint/tensor.h"
#include "server/engine/attention_mask.h"

namespace attention::server {

// The query rows of one call that see no key: how many, and which are the first. Thread-safe: the tiles of a call are
// computed on several threads.
class EmptyRows {
 public:
  // [sequence, head, query], a row of [batch, num_heads, q_length].
  using Index = std::array<int64_t, 3>;

  // How many of them are kept by index.
  static constexpr size_t kKept = 8;

  void Add(const std::vector<Index>& rows) ABSL_LOCKS_EXCLUDED(mu_);

  int64_t count() const ABSL_LOCKS_EXCLUDED(mu_);

  // The first kKept in the order of their indices, whatever the order in which they were added.
  std::vector<Index> first() const ABSL_LOCKS_EXCLUDED(mu_);

 private:
  mutable absl::Mutex mu_;
  int64_t count_ ABSL_GUARDED_BY(mu_) = 0;
  std::set<Index> first_ ABSL_GUARDED_BY(mu_);
};

// The numbers are those of attention.v1.EmptyRows, which documents them.
enum class EmptyRowRule : uint8_t { kUniform = 1, kZero = 2, kError = 3 };

// attention.v1.AttendOptions, as far as they change what is computed.
struct AttentionOptions {
  DType compute_dtype = DType::kFloat32;  // or kBFloat16
  EmptyRowRule empty_rows = EmptyRowRule::kUniform;
  float scale = 1;    // of the query
  float softcap = 0;  // 0: none
  int64_t top_k = 0;

  // Compute hidden keys too, for somebody looks at them: AttendOptions.return_intermediates.
  bool compute_hidden = false;
};

// Where the lines of the formula go, each row-major, each null if nobody asked for it. Shapes as in
// attention.v1.AttendResponse, with the batch axes folded into one. All of it is zero before the computation: rows
// behind a sequence's q_length, and keys that no query sees, are not written.
struct CallOutputs {
  float* query = nullptr;              // [batch, q_length, num_heads, head_dim]
  float* key = nullptr;                // [batch, kv_length, num_kv_heads, head_dim]
  float* value = nullptr;              // [batch, kv_length, num_kv_heads, value_head_dim]
  float* scores = nullptr;             // [batch, num_heads, q_length, kv_length]
  float* capped_scores = nullptr;      // [batch, num_heads, q_length, kv_length]
  float* masked_scores = nullptr;      // [batch, num_heads, q_length, kv_length]
  float* attn_weights = nullptr;       // [batch, num_heads, q_length, kv_length]
  float* mean_attn_weights = nullptr;  // [batch, q_length, kv_length]
  int32_t* top_keys = nullptr;         // [batch, num_heads, q_length, top_k]
  float* top_weights = nullptr;        // [batch, num_heads, q_length, top_k]
  float* log_sum_exp = nullptr;        // [batch, num_heads, q_length]
  float* context = nullptr;            // [batch, q_length, num_heads, value_head_dim]
};

// How the heads of a call without projections stand: [batch, length, heads, head_dim] or [batch, heads, length,
// head_dim].
enum class HeadAxes : uint8_t { kLengthHeads, kHeadsLength };

// One request as the engine sees it: checked against the layer, batch axes folded into one, all memory the caller's.
struct AttentionCall {
  int64_t batch = 0;
  int64_t first_sequence = 0;  // of a call that was cut out of another (call_slices.h): its place there
  int64_t q_length = 0;
  int64_t kv_length = 0;
  HeadShape heads;  // the layer's, if there is one

  // [batch, length, features], each of a float type. The features are those of the layer's kernels. Without a layer
  // these are query, key and value, and their shape follows from the heads and their axes.
  TensorView inputs_q;
  TensorView inputs_k;
  TensorView inputs_v;
  // Inputs that were left out are the same tensor as the one before; the engine then projects them together.
  bool k_is_q = false;
  bool v_is_k = false;
  HeadAxes head_axes = HeadAxes::kLengthHeads;  // of inputs and output, without a layer

  AttentionMask mask;
  ScoresTensor bias;  // of a float type; −∞ hides a key
  AttentionOptions options;

  // [batch, q_length, out_features], or, without a layer, the context with `head_axes`. Zero before the computation.
  DType output_dtype = DType::kFloat32;
  std::byte* output = nullptr;
  CallOutputs also;
  EmptyRows* empty_rows = nullptr;  // told of every row that sees no key; null: nobody wants to know

  // Rows that have to be projected, or that are attended to without projections: what CountTokens says.
  int64_t tokens = 0;

  // REQUIRES: 0 <= sequence < batch.
  SequenceLimits LimitsOf(int64_t sequence) const;
};

// Rows of one sequence that the computation needs; the others are neither projected nor looked at.
struct SequenceRows {
  int64_t queries = 0;
  int64_t keys = 0;
};

// Keys behind the sequence's kv_length count only if a query may see no key and so gets the mean of all values.
SequenceRows NeededRows(const AttentionCall& call, int64_t sequence);

// Over all sequences: the queries, plus the keys unless k_is_q; where these are the same rows, they are as many as the
// longer of the two.
int64_t CountTokens(const AttentionCall& call);

}  // namespace attention::server
