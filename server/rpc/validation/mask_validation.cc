#include "server/rpc/validation/mask_validation.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/numeric/int128.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "server/rpc/validation/tensor_validation.h"

namespace attention::server {
namespace {

struct Ids {
  std::vector<int64_t> values;
  int64_t batch_stride = 0;
};

// From any address, aligned or not.
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

absl::StatusOr<Ids> ReadIds(absl::string_view field, const v1::Tensor& tensor, absl::Span<const int64_t> batch,
                            int64_t length) {
  const absl::StatusOr<TensorView> view = CheckTensor(field, tensor, WantedDType::kId);
  if (!view.ok()) return view.status();
  const Shape for_all = {length};
  Shape for_each(batch.begin(), batch.end());
  for_each.push_back(length);
  if (view->shape != for_all && view->shape != for_each) {
    return absl::InvalidArgumentError(
        absl::StrCat(field, ": shape ", ShapeString(view->shape), ", wanted ", ShapeString(for_each),
                     batch.empty() ? "" : absl::StrCat(" or ", ShapeString(for_all), " for all rows of the batch")));
  }
  const int64_t count = *ElementCount(view->shape);
  return Ids{view->dtype == DType::kInt32 ? ToInt64<int32_t>(view->data, count) : ToInt64<int64_t>(view->data, count),
             view->shape == for_all ? 0 : length};
}

absl::Status Missing(absl::string_view field, absl::string_view with) {
  return absl::InvalidArgumentError(absl::StrCat(field, ": missing, wanted with ", with));
}

using Lengths = google::protobuf::RepeatedField<int64_t>;

// The longest offset that means anything: beyond every length, so that all behind it are alike.
constexpr int64_t kFarthest = kUnbounded / 2;

// `axis` is "kv_length" or "q_length", of size `length`.
absl::Status CheckLengths(absl::string_view axis, int64_t length, const Lengths& lengths, int64_t batch) {
  if (lengths.empty()) return absl::OkStatus();
  if (lengths.size() != batch) {
    return absl::InvalidArgumentError(absl::StrCat("mask.", axis, "s: ", lengths.size(),
                                                   lengths.size() == 1 ? " number" : " numbers", ", wanted ", batch,
                                                   ", one for each row of the batch"));
  }
  const auto bad = absl::c_find_if(lengths, [&](int64_t given) { return given < 0 || given > length; });
  if (bad == lengths.end()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("mask.", axis, "s[", bad - lengths.begin(), "]: ", *bad, ", wanted 0 to ", axis, " ", length));
}

absl::Status CheckDiagonal(absl::string_view field, const v1::Diagonal& diagonal) {
  if (diagonal.position_case() == v1::Diagonal::POSITION_NOT_SET) {
    return absl::InvalidArgumentError(absl::StrCat(field, ": no corner and no offset, wanted one of them"));
  }
  if (diagonal.has_offset() || diagonal.corner() == v1::Diagonal::CORNER_TOP_LEFT ||
      diagonal.corner() == v1::Diagonal::CORNER_BOTTOM_RIGHT) {
    return absl::OkStatus();
  }
  const auto number = static_cast<int>(diagonal.corner());
  return absl::InvalidArgumentError(absl::StrCat(field, ".corner: ", number == 0 ? "unspecified" : absl::StrCat(number),
                                                 ", wanted TOP_LEFT or BOTTOM_RIGHT"));
}

absl::Status CheckWidth(absl::string_view side, int64_t width) {
  if (width >= -1) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("mask.window.", side, ": ", width, ", wanted -1 (all) or more"));
}

int64_t Left(const v1::SlidingWindow& window) { return window.has_left() ? window.left() : -1; }
int64_t Right(const v1::SlidingWindow& window) { return window.has_right() ? window.right() : -1; }

absl::Status CheckWindow(const v1::SlidingWindow& window) {
  if (!window.has_diagonal()) {
    return absl::InvalidArgumentError("mask.window.diagonal: missing, wanted a corner or an offset");
  }
  if (auto status = CheckDiagonal("mask.window.diagonal", window.diagonal()); !status.ok()) return status;
  if (auto status = CheckWidth("left", Left(window)); !status.ok()) return status;
  return CheckWidth("right", Right(window));
}

absl::Status CheckParts(const v1::Mask& mask, const ScoresShape& scores, int64_t batch) {
  if (auto status = CheckLengths("kv_length", scores.kv_length, mask.kv_lengths(), batch); !status.ok()) return status;
  if (auto status = CheckLengths("q_length", scores.q_length, mask.q_lengths(), batch); !status.ok()) return status;
  if (mask.has_causal()) {
    if (auto status = CheckDiagonal("mask.causal", mask.causal()); !status.ok()) return status;
  }
  return mask.has_window() ? CheckWindow(mask.window()) : absl::OkStatus();
}

// The key opposite query 0. `limits` has the lengths of the sequence.
int64_t OffsetOf(const v1::Diagonal& diagonal, const SequenceLimits& limits) {
  if (diagonal.has_offset()) return diagonal.offset();
  return diagonal.corner() == v1::Diagonal::CORNER_TOP_LEFT ? 0 : limits.kv_length - limits.q_length;
}

// Callers may write any numbers, also such whose sum passes int64.
int64_t Near(absl::int128 offset) {
  return static_cast<int64_t>(std::clamp<absl::int128>(offset, -kFarthest, kFarthest));
}

// Narrows limits that have nothing but lengths.
SequenceLimits WithDiagonals(const v1::Mask& mask, SequenceLimits limits) {
  if (mask.has_causal()) limits.last_offset = Near(OffsetOf(mask.causal(), limits));
  if (!mask.has_window()) return limits;
  const absl::int128 opposite = OffsetOf(mask.window().diagonal(), limits);
  const int64_t left = Left(mask.window()), right = Right(mask.window());
  if (left >= 0) limits.first_offset = Near(opposite - left);
  if (right >= 0) limits.last_offset = std::min(limits.last_offset, Near(opposite + right));
  return limits;
}

bool Same(const SequenceLimits& a, const SequenceLimits& b) {
  return a.q_length == b.q_length && a.kv_length == b.kv_length && a.first_offset == b.first_offset &&
         a.last_offset == b.last_offset;
}

constexpr absl::string_view kDense = "mask.dense";

absl::Status CheckTruthValues(absl::Span<const char> bytes) {
  // A loop without an exit, which the compiler turns into vector code: masks can have many millions of entries.
  uint8_t all = 0;
  for (const char byte : bytes) all |= static_cast<uint8_t>(byte);
  if (all <= 1) return absl::OkStatus();
  const auto bad = absl::c_find_if(bytes, [](char byte) { return static_cast<uint8_t>(byte) > 1; });
  return absl::InvalidArgumentError(absl::StrCat(kDense, ": element ", bad - bytes.begin(), " is ",
                                                 static_cast<uint8_t>(*bad), ", wanted a bool: 0 or 1"));
}

absl::StatusOr<ScoresTensor> CheckDense(const v1::Tensor& dense, const ScoresShape& scores) {
  const absl::StatusOr<TensorView> view = CheckTensor(kDense, dense, WantedDType::kBool);
  if (!view.ok()) return view.status();
  auto laid = BroadcastToScores(kDense, *view, scores);
  if (!laid.ok()) return laid.status();
  if (auto status = CheckTruthValues(dense.data()); !status.ok()) return status;
  return laid;
}

}  // namespace

absl::StatusOr<SegmentIds> CheckSegments(const v1::Mask& mask, const ScoresShape& scores, bool k_is_q) {
  const bool has_q = mask.has_q_segment_ids(), has_kv = mask.has_kv_segment_ids();
  if (!has_q && !has_kv) return SegmentIds();
  if (!has_q) return Missing("mask.q_segment_ids", "mask.kv_segment_ids");
  if (!has_kv && !k_is_q) return Missing("mask.kv_segment_ids", "mask.q_segment_ids, since inputs_k is given");

  auto q = ReadIds("mask.q_segment_ids", mask.q_segment_ids(), scores.batch, scores.q_length);
  if (!q.ok()) return q.status();
  if (!has_kv) return SegmentIds{q->values, q->values, q->batch_stride, q->batch_stride};
  auto kv = ReadIds("mask.kv_segment_ids", mask.kv_segment_ids(), scores.batch, scores.kv_length);
  if (!kv.ok()) return kv.status();
  return SegmentIds{std::move(q->values), std::move(kv->values), q->batch_stride, kv->batch_stride};
}

absl::StatusOr<std::vector<SequenceLimits>> CheckLimits(const v1::Mask& mask, const ScoresShape& scores) {
  const int64_t batch = *ElementCount(scores.batch);
  if (auto status = CheckParts(mask, scores, batch); !status.ok()) return status;
  if (batch == 0 || scores.q_length == 0) return std::vector<SequenceLimits>();

  const SequenceLimits whole{.q_length = scores.q_length, .kv_length = scores.kv_length};
  const int different = std::max({1, mask.kv_lengths_size(), mask.q_lengths_size()});
  std::vector<SequenceLimits> limits;
  limits.reserve(different);
  for (int row = 0; row < different; ++row) {
    SequenceLimits lengths = whole;
    if (!mask.kv_lengths().empty()) lengths.kv_length = mask.kv_lengths(row);
    if (!mask.q_lengths().empty()) lengths.q_length = mask.q_lengths(row);
    limits.push_back(WithDiagonals(mask, lengths));
  }
  const SequenceLimits first = limits.front();
  if (!absl::c_all_of(limits, [&](const SequenceLimits& row) { return Same(row, first); })) return limits;
  if (Same(first, whole)) return std::vector<SequenceLimits>();
  return std::vector<SequenceLimits>{first};
}

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

int64_t OwnedBytes(const AttentionMask& mask) {
  const size_t numbers = mask.dense.batch_offsets.size() + mask.segments.q.size() + mask.segments.kv.size();
  return static_cast<int64_t>(numbers * sizeof(int64_t) + mask.limits.size() * sizeof(SequenceLimits));
}

}  // namespace attention::server
