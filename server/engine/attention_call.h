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
#include "server/engine/non_finite.h"
#include "server/engine/stop_token.h"

namespace attention::server {

// Counts the query rows of one call that see no key, and keeps the indices of the first ones. Thread-safe: the rows of
// a call are computed on several threads.
class EmptyRowCounter {
 public:
  // [sequence, head, query]: an index into [batch, num_heads, q_length].
  using Index = std::array<int64_t, 3>;

  // Most indices that are kept.
  static constexpr size_t kMaxIndices = 8;

  void Add(const std::vector<Index>& rows) ABSL_LOCKS_EXCLUDED(mu_);

  int64_t count() const ABSL_LOCKS_EXCLUDED(mu_);

  // The kMaxIndices smallest indices in ascending order, independent of the order in which they were added.
  std::vector<Index> first() const ABSL_LOCKS_EXCLUDED(mu_);

 private:
  mutable absl::Mutex mu_;
  int64_t count_ ABSL_GUARDED_BY(mu_) = 0;
  std::set<Index> first_ ABSL_GUARDED_BY(mu_);
};

// Which inputs of a call are the same tensor. The engine multiplies a shared tensor by its kernels together.
enum class InputSharing : uint8_t {
  kNone,           // inputs_q, inputs_k and inputs_v
  kValuesAreKeys,  // inputs_v was left out: inputs_k is used for both
  kAll,            // inputs_k and inputs_v were left out: self-attention
};

// Order of the axes of query, key, value and output of a call without a weight set: [batch, length, heads, head_dim] or
// [batch, heads, length, head_dim].
enum class HeadAxes : uint8_t { kLengthHeads, kHeadsLength };

// Sizes of a call. The batch axes of the request are folded into one; each index of it is a sequence.
struct AttentionShape {
  int64_t batch = 0;
  int64_t q_length = 0;
  int64_t kv_length = 0;
  HeadShape heads;  // those of the layer, if there is one
  InputSharing sharing = InputSharing::kNone;
  HeadAxes head_axes = HeadAxes::kLengthHeads;  // ignored with a layer

  bool k_is_q() const { return sharing == InputSharing::kAll; }
};

// What to do with a query row that sees no key. The numbers are those of attention.v1.EmptyRows, which documents them.
enum class EmptyRowRule : uint8_t { kUniform = 1, kZero = 2, kError = 3 };

// The part of attention.v1.AttendOptions that changes what is computed.
struct AttentionOptions {
  DType compute_dtype = DType::kFloat32;  // or kBFloat16
  EmptyRowRule empty_rows = EmptyRowRule::kUniform;
  float scale = 1;    // the query is multiplied by it
  float softcap = 0;  // 0: none
  int64_t top_k = 0;

  // Also compute scores of hidden keys, because the reply contains them: AttendOptions.return_intermediates.
  bool compute_hidden = false;
};

// A row-major tensor [batch, length, features] of a call. Without a layer, features is heads × head_dim, and a sequence
// has its axes in the order of AttentionShape::head_axes. The bytes belong to the request or the reply, at any address.
template <typename Byte>
struct SequenceTensor {
  DType dtype = DType::kFloat32;
  Byte* data = nullptr;
  int64_t length = 0;
  int64_t features = 0;

  Byte* At(int64_t sequence) const { return data + sequence * length * features * DTypeSize(dtype); }
};

using InputTensor = SequenceTensor<const std::byte>;
using OutputTensor = SequenceTensor<std::byte>;

// Where the engine writes the optional parts of the reply, row-major; null if it is not requested. Shapes
// as in attention.v1.AttendResponse, with the batch axes folded into one. The memory must be zero before the
// computation: rows at or after a sequence's q_length, and keys that no query sees, are not written.
struct ExtraOutputs {
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

  // True if an output is made from the attention weights.
  bool needs_weights() const { return attn_weights != nullptr || mean_attn_weights != nullptr || top_keys != nullptr; }
};

// One request as the engine sees it, checked against the layer. Owns its sizes and its mask's lists; the bytes of the
// tensors belong to the request and the reply. To compute some sequences of a call, the engine refers to it by
// CallSlice: a call is never copied or cut.
struct AttentionCall {
  // The same for every sequence.
  AttentionShape shape;
  AttentionOptions options;

  // Indexed by sequence. Each input has a float type. With a layer, its features are those of the layer's kernel;
  // without one, the inputs are query, key and value. An input that was left out is the tensor that replaces it.
  InputTensor inputs_q;
  InputTensor inputs_k;
  InputTensor inputs_v;
  AttentionMask mask;
  ScoresTensor bias;  // of a float type; −∞ hides a key

  // [batch, q_length, out_features]; without a layer, the context. The memory must be zero before the computation.
  OutputTensor output;
  ExtraOutputs extra_outputs;

  EmptyRowCounter* empty_rows = nullptr;   // counts every row that sees no key; may be null
  NonFiniteTensors* non_finite = nullptr;  // tensors with a number that is not finite; may be null

  // CountTokens and CallCost of this call. The engine computes cheap calls on the calling thread; 0 is not known.
  int64_t tokens = 0;
  double cost = 0;

  // Polled during the computation; null: the call is always computed to its end.
  const StopToken* stop = nullptr;
  bool ShouldStop() const { return stop != nullptr && stop->ShouldStop(); }

  // REQUIRES: 0 <= sequence < batch.
  SequenceLimits LimitsOf(int64_t sequence) const;

  void AddNonFinite(FormulaTensor tensor) const {
    if (non_finite != nullptr) non_finite->Add(tensor);
  }
};

// Some consecutive sequences of a call. Sequences are always numbered as in the call.
struct CallSlice {
  const AttentionCall* call = nullptr;
  int64_t first_sequence = 0;
  int64_t sequences = 0;
};

// The tokens of one sequence that are needed to compute it; the others are neither projected nor read.
struct NeededTokens {
  int64_t queries = 0;
  int64_t keys = 0;
};

// Keys at or after the sequence's kv_length are needed only if a query may see no key, because its context is then the
// mean of all values.
NeededTokens TokensOf(const AttentionCall& call, int64_t sequence);

// Needed tokens of all sequences: queries plus keys. With InputSharing::kAll both are the same tokens, and the longer
// of the two counts.
int64_t CountTokens(const AttentionCall& call);

}  // namespace attention::server
