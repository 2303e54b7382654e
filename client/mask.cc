#include "client/mask.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace attention {
namespace {

bool IsSet(absl::Span<const int64_t> lengths) { return !lengths.empty(); }

template <typename T>
bool IsSet(const std::optional<T>& part) {
  return part.has_value();
}

}  // namespace

Mask CausalMask(Diagonal diagonal) { return {.causal = diagonal}; }

Mask WindowMask(Diagonal diagonal, int64_t left, int64_t right) {
  return {.window = SlidingWindow{.diagonal = diagonal, .left = left, .right = right}};
}

Mask LengthMask(absl::Span<const int64_t> kv_lengths, absl::Span<const int64_t> q_lengths) {
  return {.kv_lengths = kv_lengths, .q_lengths = q_lengths};
}

Mask SegmentMask(const TensorRef& q_segment_ids, std::optional<TensorRef> kv_segment_ids) {
  return {.q_segment_ids = q_segment_ids, .kv_segment_ids = kv_segment_ids};
}

Mask DenseMask(const TensorRef& dense) { return {.dense = dense}; }

absl::StatusOr<Mask> And(const Mask& a, const Mask& b) {
  Mask both = a;
  absl::Status status;
  const auto add = [&](absl::string_view name, auto& part, const auto& other) {
    if (!IsSet(other)) return;
    if (IsSet(part)) status.Update(absl::InvalidArgumentError(absl::StrCat("mask.", name, ": both masks set it")));
    part = other;
  };
  add("dense", both.dense, b.dense);
  add("causal", both.causal, b.causal);
  add("window", both.window, b.window);
  add("kv_lengths", both.kv_lengths, b.kv_lengths);
  add("q_lengths", both.q_lengths, b.q_lengths);
  add("q_segment_ids", both.q_segment_ids, b.q_segment_ids);
  add("kv_segment_ids", both.kv_segment_ids, b.kv_segment_ids);
  if (!status.ok()) return status;
  return both;
}

}  // namespace attention
