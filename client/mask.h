#pragma once

#include <cstdint>
#include <optional>
#include <variant>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "client/tensor.h"

namespace attention {

// Which key stands opposite which query where their lengths differ. Libraries disagree about it in silence, so nothing
// here has a default.
enum class Corner : uint8_t {
  // The first query opposite the first key. PyTorch's is_causal and causal_upper_left, flax's make_causal_mask, JAX's
  // is_causal, ONNX without a cache.
  kTopLeft = 1,
  // The last query opposite the last key, in each sequence by its own kv_lengths and q_lengths. PyTorch's
  // causal_lower_right, FlashAttention, ONNX with nonpad_kv_seqlen.
  kBottomRight = 2,
};

// A corner, or the offset itself: query i stands opposite key i + offset, so it is the number of keys before those of
// the first query (in a cache, for instance). May be negative.
using Diagonal = std::variant<Corner, int64_t>;

// Query i sees the keys from i + offset − left to i + offset + right.
struct SlidingWindow {
  Diagonal diagonal = {};  // required
  int64_t left = -1;       // keys before the one opposite the query; −1: all of them
  int64_t right = -1;      // keys behind it; −1: all of them
};

// Which query sees which key: where every part that is set says so. A part that is not set hides nothing. It only
// points: what it names must stay until the function that takes it has returned.
//
//   request.mask = {.causal = Corner::kTopLeft, .kv_lengths = lengths};
//
// The server computes nothing that a part hides, except for `dense`, which it has to read to know.
// What a query gets that sees no key at all is AttendRequest::empty_rows.
struct Mask {
  // Bool, true = attend. Broadcast, aligned at the right, to [batch…, num_heads, q_length, kv_length]: an axis of size
  // 1, or one that is missing on the left, holds for all. Numbers that are added to the scores are AttendRequest::bias.
  std::optional<TensorRef> dense = {};
  // Query i sees key j only if j <= i + offset of the diagonal.
  std::optional<Diagonal> causal = {};
  // Query i sees key j only near the diagonal.
  std::optional<SlidingWindow> window = {};
  // Keys of each sequence: the first kv_lengths[b] of its kv_length; the others are padding and hidden. One number for
  // each row of the batch (of all batch axes together, row-major), from 0 to kv_length. Empty: not set.
  absl::Span<const int64_t> kv_lengths = {};
  // Queries of each sequence, from 0 to q_length. The rows behind are not computed and come back as zeros. Empty: not
  // set.
  absl::Span<const int64_t> q_lengths = {};
  // Query i sees key j only if q_segment_ids[i] = kv_segment_ids[j]. Int32 or int64, [batch…, q_length] and
  // [batch…, kv_length], or without the batch axes for all rows of the batch alike. Default of kv_segment_ids:
  // q_segment_ids, if inputs_k is left out; else both or neither.
  std::optional<TensorRef> q_segment_ids = {};
  std::optional<TensorRef> kv_segment_ids = {};
};

// The parts by the names under which other libraries have them, to be joined with And.

// flax's make_causal_mask, and is_causal of PyTorch, JAX and ONNX, are CausalMask(Corner::kTopLeft).
Mask CausalMask(Diagonal diagonal);

// JAX's local_window_size = (left, right), FlashAttention's window_size. WindowMask(diagonal, n, 0) is a causal window
// of n + 1 keys. −1: no bound on that side.
Mask WindowMask(Diagonal diagonal, int64_t left, int64_t right);

// Padding at the end of each sequence. kv_lengths: JAX's key_value_seq_lengths, ONNX's nonpad_kv_seqlen, what
// PyTorch's key_padding_mask (there true = hide) is made of. q_lengths: JAX's query_seq_lengths.
Mask LengthMask(absl::Span<const int64_t> kv_lengths, absl::Span<const int64_t> q_lengths = {});

// Sequences packed end to end into one. flax's make_attention_mask(q_ids, kv_ids, jnp.equal); what FlashAttention gives
// as cumulative lengths.
Mask SegmentMask(const TensorRef& q_segment_ids, std::optional<TensorRef> kv_segment_ids = std::nullopt);

// A mask written out, true = attend: `mask` of flax and JAX, PyTorch's attn_mask of bool in
// scaled_dot_product_attention (in nn.MultiheadAttention true hides), ONNX's attn_mask of bool.
Mask DenseMask(const TensorRef& dense);

// Attend where both say so: flax's combine_masks. INVALID_ARGUMENT, with the name of the part, if both set the same
// one.
absl::StatusOr<Mask> And(const Mask& a, const Mask& b);

}  // namespace attention
