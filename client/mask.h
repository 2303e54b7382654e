#pragma once

#include <cstdint>
#include <optional>
#include <variant>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "client/tensor.h"

namespace attention {

// Alignment of the diagonal where q_length and kv_length differ. It has no default, because libraries disagree about it
// without saying so.
enum class Corner : uint8_t {
  // The first query is aligned with the first key. PyTorch's is_causal and causal_upper_left, flax's make_causal_mask,
  // JAX's is_causal, ONNX without a cache.
  kTopLeft = 1,
  // The last query is aligned with the last key, in each sequence according to its own kv_lengths and q_lengths.
  // PyTorch's causal_lower_right, FlashAttention, ONNX with nonpad_kv_seqlen.
  kBottomRight = 2,
};

// A corner, or an offset: query i is aligned with key i + offset, so the offset is the number of keys before the key of
// the first query, for instance those in a cache. May be negative.
using Diagonal = std::variant<Corner, int64_t>;

// Query i sees keys i + offset − left to i + offset + right, both included.
struct SlidingWindow {
  Diagonal diagonal = {};  // required
  int64_t left = -1;       // number of keys before the diagonal; −1: all
  int64_t right = -1;      // number of keys after the diagonal; −1: all
};

// Which query sees which key: a query sees a key only if every part that is set allows it. A part that is not set hides
// nothing. A Mask does not own its tensors and spans: they must outlive the function that takes it.
//
//   request.mask = {.causal = Corner::kTopLeft, .kv_lengths = lengths};
//
// The server skips the computation for hidden keys, except for those hidden by `dense` alone. AttendRequest::empty_rows
// says what the result for a query without any visible key is.
struct Mask {
  // bool, true = attend. Broadcast to [batch…, num_heads, q_length, kv_length]: aligned at the right, an axis of size 1
  // or a missing leading axis applies to all. Numbers to be added to the scores belong in AttendRequest::bias.
  std::optional<TensorRef> dense = {};
  // Query i sees key j only if j <= i + offset of the diagonal.
  std::optional<Diagonal> causal = {};
  // Query i sees key j only within a window around the diagonal.
  std::optional<SlidingWindow> window = {};
  // Number of keys of each sequence, from 0 to kv_length; the keys after them are padding and hidden. One number for
  // each sequence of the batch (all batch axes flattened, row-major). Empty: not set.
  absl::Span<const int64_t> kv_lengths = {};
  // Number of queries of each sequence, from 0 to q_length. The rows after them are not computed and are zero in the
  // reply. Empty: not set.
  absl::Span<const int64_t> q_lengths = {};
  // Query i sees key j only if q_segment_ids[i] = kv_segment_ids[j]. int32 or int64, [batch…, q_length] and
  // [batch…, kv_length]; without the batch axes they apply to every sequence. kv_segment_ids defaults to q_segment_ids
  // if inputs_k is not set; otherwise set both or neither.
  std::optional<TensorRef> q_segment_ids = {};
  std::optional<TensorRef> kv_segment_ids = {};
};

// One function for each part, named as in other libraries. And combines them.

// CausalMask(Corner::kTopLeft) is flax's make_causal_mask and is_causal of PyTorch, JAX and ONNX.
Mask CausalMask(Diagonal diagonal);

// JAX's local_window_size = (left, right), FlashAttention's window_size. WindowMask(diagonal, n, 0) is a causal window
// of n + 1 keys. −1: no bound on that side.
Mask WindowMask(Diagonal diagonal, int64_t left, int64_t right);

// Padding at the end of each sequence. kv_lengths: JAX's key_value_seq_lengths, ONNX's nonpad_kv_seqlen; PyTorch's
// key_padding_mask (where true = hide) written as lengths. q_lengths: JAX's query_seq_lengths.
Mask LengthMask(absl::Span<const int64_t> kv_lengths, absl::Span<const int64_t> q_lengths = {});

// Several sequences packed into one. flax's make_attention_mask(q_ids, kv_ids, jnp.equal); FlashAttention expresses the
// same with cumulative lengths.
Mask SegmentMask(const TensorRef& q_segment_ids, std::optional<TensorRef> kv_segment_ids = std::nullopt);

// A bool tensor, true = attend: `mask` of flax and JAX, the bool attn_mask of ONNX and of PyTorch's
// scaled_dot_product_attention (in nn.MultiheadAttention true means hide).
Mask DenseMask(const TensorRef& dense);

// Attend where both masks allow it: flax's combine_masks. INVALID_ARGUMENT, with the name of the part, if both set the
// same part.
absl::StatusOr<Mask> And(const Mask& a, const Mask& b);

}  // namespace attention
