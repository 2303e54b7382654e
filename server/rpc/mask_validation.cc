#include "server/rpc/mask_validation.h"

#include <utility>

#include "absl/algorithm/container.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "server/rpc/limits_validation.h"
#include "server/rpc/segment_validation.h"
#include "server/rpc/tensor_validation.h"

namespace attention::server {
namespace {

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
