#include "server/rpc/validation/mask_validation.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/numeric/int128.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "server/checkpoint/field_error.h"

namespace attention::server {
namespace {

constexpr absl::string_view kDense = "mask.dense";

absl::Status CheckTruthValues(absl::Span<const char> bytes) {
  // A loop without an early exit, so that the compiler vectorises it: masks can have many millions of entries.
  uint8_t all = 0;
  for (const char byte : bytes) all |= static_cast<uint8_t>(byte);
  if (all <= 1) return absl::OkStatus();
  const auto bad = absl::c_find_if(bytes, [](char byte) { return static_cast<uint8_t>(byte) > 1; });
  return FieldError(kDense, "bool elements, 0 or 1",
                    absl::StrCat(static_cast<uint8_t>(*bad), " at element ", bad - bytes.begin()));
}

absl::StatusOr<ScoresTensor> CheckDense(const v1::Tensor& dense, const ScoresShape& scores) {
  const absl::StatusOr<TensorView> view = CheckTensor(kDense, dense, AcceptedDTypes::kBool);
  if (!view.ok()) return view.status();
  auto broadcast = BroadcastToScores(kDense, *view, scores);
  if (!broadcast.ok()) return broadcast.status();
  if (auto status = CheckTruthValues(dense.data()); !status.ok()) return status;
  return broadcast;
}

using Lengths = google::protobuf::RepeatedField<int64_t>;

// `axis` is "kv_length" or "q_length", of size `length`.
absl::Status CheckLengths(absl::string_view axis, int64_t length, const Lengths& lengths, int64_t batch) {
  if (lengths.empty()) return absl::OkStatus();
  if (lengths.size() != batch) {
    return FieldError(absl::StrCat("mask.", axis, "s"), absl::StrCat(batch, " lengths, one for each row of the batch"),
                      lengths.size());
  }
  const auto bad = absl::c_find_if(lengths, [&](int64_t given) { return given < 0 || given > length; });
  if (bad == lengths.end()) return absl::OkStatus();
  return FieldError(absl::StrCat("mask.", axis, "s[", bad - lengths.begin(), "]"),
                    absl::StrCat("0 to ", axis, " ", length), *bad);
}

absl::Status CheckDiagonal(absl::string_view field, const v1::Diagonal& diagonal) {
  if (diagonal.position_case() == v1::Diagonal::POSITION_NOT_SET) {
    return FieldError(field, "a corner or an offset", "neither");
  }
  if (diagonal.has_offset() || diagonal.corner() == v1::Diagonal::CORNER_TOP_LEFT ||
      diagonal.corner() == v1::Diagonal::CORNER_BOTTOM_RIGHT) {
    return absl::OkStatus();
  }
  const auto number = static_cast<int>(diagonal.corner());
  return FieldError(absl::StrCat(field, ".corner"), "TOP_LEFT or BOTTOM_RIGHT",
                    number == 0 ? "unspecified" : absl::StrCat(number));
}

absl::Status CheckWidth(absl::string_view side, int64_t width) {
  if (width >= -1) return absl::OkStatus();
  return FieldError(absl::StrCat("mask.window.", side), "-1 (unlimited) or more", width);
}

int64_t LeftWidth(const v1::SlidingWindow& window) { return window.has_left() ? window.left() : -1; }
int64_t RightWidth(const v1::SlidingWindow& window) { return window.has_right() ? window.right() : -1; }

absl::Status CheckWindow(const v1::SlidingWindow& window) {
  if (!window.has_diagonal()) return FieldError("mask.window.diagonal", "a corner or an offset", "none");
  if (auto status = CheckDiagonal("mask.window.diagonal", window.diagonal()); !status.ok()) return status;
  if (auto status = CheckWidth("left", LeftWidth(window)); !status.ok()) return status;
  return CheckWidth("right", RightWidth(window));
}

absl::Status CheckLengthsAndDiagonals(const v1::Mask& mask, const ScoresShape& scores, int64_t batch) {
  if (auto status = CheckLengths("kv_length", scores.kv_length, mask.kv_lengths(), batch); !status.ok()) return status;
  if (auto status = CheckLengths("q_length", scores.q_length, mask.q_lengths(), batch); !status.ok()) return status;
  if (mask.has_causal()) {
    if (auto status = CheckDiagonal("mask.causal", mask.causal()); !status.ok()) return status;
  }
  return mask.has_window() ? CheckWindow(mask.window()) : absl::OkStatus();
}

// The key on the diagonal at query 0. `limits` has the lengths of the sequence.
int64_t DiagonalOffset(const v1::Diagonal& diagonal, const SequenceLimits& limits) {
  if (diagonal.has_offset()) return diagonal.offset();
  return diagonal.corner() == v1::Diagonal::CORNER_TOP_LEFT ? 0 : limits.kv_length - limits.q_length;
}

// Limits an offset to a range that is wider than any sequence. Offsets and widths of a request can be any int64, so
// their sums are computed with 128 bits.
int64_t ClampOffset(absl::int128 offset) {
  constexpr int64_t kMaxOffset = kUnbounded / 2;
  return static_cast<int64_t>(std::clamp<absl::int128>(offset, -kMaxOffset, kMaxOffset));
}

// Adds the diagonals of the mask to limits that have only lengths.
SequenceLimits AddDiagonals(const v1::Mask& mask, SequenceLimits limits) {
  if (mask.has_causal()) limits.last_offset = ClampOffset(DiagonalOffset(mask.causal(), limits));
  if (!mask.has_window()) return limits;
  const absl::int128 center = DiagonalOffset(mask.window().diagonal(), limits);
  const int64_t left = LeftWidth(mask.window()), right = RightWidth(mask.window());
  if (left >= 0) limits.first_offset = ClampOffset(center - left);
  if (right >= 0) limits.last_offset = std::min(limits.last_offset, ClampOffset(center + right));
  return limits;
}

bool EqualLimits(const SequenceLimits& a, const SequenceLimits& b) {
  return a.q_length == b.q_length && a.kv_length == b.kv_length && a.first_offset == b.first_offset &&
         a.last_offset == b.last_offset;
}

// `data` may have any alignment.
template <typename From>
std::vector<int64_t> ToInt64(const std::byte* data, int64_t count) {
  std::vector<int64_t> values(count);
  for (int64_t i = 0; i < count; ++i) {
    From value;
    std::memcpy(&value, data + i * sizeof(From), sizeof(From));
    values[i] = value;
  }
  return values;
}

struct Ids {
  std::vector<int64_t> values;
  int64_t batch_stride = 0;
};

absl::StatusOr<Ids> ReadIds(absl::string_view field, const v1::Tensor& tensor, absl::Span<const int64_t> batch,
                            int64_t length) {
  const absl::StatusOr<TensorView> view = CheckTensor(field, tensor, AcceptedDTypes::kId);
  if (!view.ok()) return view.status();
  const Shape shared = {length};
  Shape per_row(batch.begin(), batch.end());
  per_row.push_back(length);
  if (view->shape != shared && view->shape != per_row) {
    return FieldError(field,
                      absl::StrCat("shape ", ShapeString(per_row),
                                   batch.empty() ? "" : absl::StrCat(" or ", ShapeString(shared), " for all rows")),
                      ShapeString(view->shape));
  }
  const int64_t count = *ElementCount(view->shape);
  return Ids{view->dtype == DType::kInt32 ? ToInt64<int32_t>(view->data, count) : ToInt64<int64_t>(view->data, count),
             view->shape == shared ? 0 : length};
}

}  // namespace

absl::StatusOr<AttentionMask> CheckMask(const v1::Mask& mask, const ScoresShape& scores, bool k_is_q) {
  AttentionMask checked;
  if (mask.has_dense()) {
    auto dense = CheckDense(mask.dense(), scores);
    if (!dense.ok()) return dense.status();
    checked.dense = *std::move(dense);
  }
  auto limits = CheckLimits(mask, scores);
  if (!limits.ok()) return limits.status();
  checked.limits = *std::move(limits);
  auto segments = CheckSegments(mask, scores, k_is_q);
  if (!segments.ok()) return segments.status();
  checked.segments = *std::move(segments);
  return checked;
}

absl::StatusOr<std::vector<SequenceLimits>> CheckLimits(const v1::Mask& mask, const ScoresShape& scores) {
  const int64_t batch = *ElementCount(scores.batch);
  if (auto status = CheckLengthsAndDiagonals(mask, scores, batch); !status.ok()) return status;
  if (batch == 0 || scores.q_length == 0) return std::vector<SequenceLimits>();

  const SequenceLimits whole{.q_length = scores.q_length, .kv_length = scores.kv_length};
  const int rows = std::max({1, mask.kv_lengths_size(), mask.q_lengths_size()});
  std::vector<SequenceLimits> limits;
  limits.reserve(rows);
  for (int row = 0; row < rows; ++row) {
    SequenceLimits lengths = whole;
    if (!mask.kv_lengths().empty()) lengths.kv_length = mask.kv_lengths(row);
    if (!mask.q_lengths().empty()) lengths.q_length = mask.q_lengths(row);
    limits.push_back(AddDiagonals(mask, lengths));
  }
  const SequenceLimits first = limits.front();
  if (!absl::c_all_of(limits, [&](const SequenceLimits& row) { return EqualLimits(row, first); })) return limits;
  if (EqualLimits(first, whole)) return std::vector<SequenceLimits>();
  return std::vector<SequenceLimits>{first};
}

absl::StatusOr<SegmentIds> CheckSegments(const v1::Mask& mask, const ScoresShape& scores, bool k_is_q) {
  const bool has_q = mask.has_q_segment_ids(), has_kv = mask.has_kv_segment_ids();
  if (!has_q && !has_kv) return SegmentIds();
  if (!has_q) return FieldError("mask.q_segment_ids", "ids because mask.kv_segment_ids is set", "none");
  if (!has_kv && !k_is_q) {
    return FieldError("mask.kv_segment_ids", "ids because mask.q_segment_ids and inputs_k are set", "none");
  }
  auto q = ReadIds("mask.q_segment_ids", mask.q_segment_ids(), scores.batch, scores.q_length);
  if (!q.ok()) return q.status();
  if (!has_kv) return SegmentIds{q->values, q->values, q->batch_stride, q->batch_stride};
  auto kv = ReadIds("mask.kv_segment_ids", mask.kv_segment_ids(), scores.batch, scores.kv_length);
  if (!kv.ok()) return kv.status();
  return SegmentIds{std::move(q->values), std::move(kv->values), q->batch_stride, kv->batch_stride};
}

int64_t MaskBytes(const v1::Mask& mask, const AttentionMask& checked) {
  const size_t numbers = checked.dense.batch_offsets.size() + checked.segments.q.size() + checked.segments.kv.size() +
                         mask.kv_lengths_size() + mask.q_lengths_size();
  const size_t bytes = mask.dense().data().size() + mask.q_segment_ids().data().size() +
                       mask.kv_segment_ids().data().size() + numbers * sizeof(int64_t) +
                       checked.limits.size() * sizeof(SequenceLimits);
  return static_cast<int64_t>(bytes);
}

}  // namespace attention::server
