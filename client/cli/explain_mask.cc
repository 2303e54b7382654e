#include "client/cli/explain_mask.h"

#include "absl/strings/str_cat.h"
#include "client/cli/number_format.h"

namespace attention::cli {
namespace {

int64_t LengthOf(const std::vector<int64_t>& lengths, const Spot& spot, int64_t length) {
  return lengths.empty() ? length : lengths[spot.sequence];
}

int64_t Offset(const ExplainedCall& call, const Spot& spot, const Diagonal& diagonal) {
  if (const int64_t* offset = std::get_if<int64_t>(&diagonal)) return *offset;
  if (std::get<Corner>(diagonal) == Corner::kTopLeft) return 0;
  return LengthOf(call.mask.kv_lengths, spot, call.kv_length) - LengthOf(call.mask.q_lengths, spot, call.q_length);
}

// "bottom-right, offset 2"
std::string DiagonalText(const ExplainedCall& call, const Spot& spot, const Diagonal& diagonal) {
  const Corner* corner = std::get_if<Corner>(&diagonal);
  const char* name = corner == nullptr ? "" : *corner == Corner::kTopLeft ? "top-left, " : "bottom-right, ";
  return absl::StrCat(name, "offset ", Offset(call, spot, diagonal));
}

std::string CausalText(const ExplainedCall& call, const Spot& spot) {
  const Diagonal& diagonal = *call.mask.causal;
  return absl::StrCat("      causal (", DiagonalText(call, spot, diagonal), "): keys up to ", spot.row,
                      " + offset = ", spot.row + Offset(call, spot, diagonal), "\n");
}

std::string WindowText(const ExplainedCall& call, const Spot& spot) {
  const SlidingWindow& window = *call.mask.window;
  const int64_t opposite = spot.row + Offset(call, spot, window.diagonal);
  const std::string first = window.left == -1 ? "the first" : absl::StrCat(opposite - window.left);
  const std::string last = window.right == -1 ? "the last" : absl::StrCat(opposite + window.right);
  return absl::StrCat("      window (", DiagonalText(call, spot, window.diagonal), "): keys from ", first, " to ", last,
                      "\n");
}

double SegmentOf(const Numbers& ids, const Spot& spot, int64_t length, int64_t i) {
  const bool for_all_rows = static_cast<int64_t>(ids.values.size()) == length;
  return ids.values[(for_all_rows ? 0 : spot.sequence * length) + i];
}

std::string SegmentsText(const ExplainedCall& call, const Spot& spot) {
  const double segment = SegmentOf(*call.mask.q_segment_ids, spot, call.q_length, spot.row);
  int64_t keys = 0;
  for (int64_t j = 0; j < call.kv_length; ++j) {
    keys += SegmentOf(*call.mask.kv_segment_ids, spot, call.kv_length, j) == segment ? 1 : 0;
  }
  return absl::StrCat("      segment ids: this query is in segment ", static_cast<int64_t>(segment), ", as ",
                      CountOf(keys, "key"), "\n");
}

std::string BroadcastText(const char* name, const std::vector<int64_t>& shape, const ExplainedCall& call) {
  return absl::StrCat("      ", name, " ", FormatShape(shape), ", broadcast to ", FormatShape(call.scores.shape), "\n");
}

}  // namespace

std::string MaskPartsText(const ExplainedCall& call, const Spot& spot) {
  const ExplainedMask& mask = call.mask;
  std::string text;
  if (call.bias) text += BroadcastText("bias", call.bias->shape, call);
  if (mask.dense_shape) text += BroadcastText("mask", *mask.dense_shape, call);
  if (mask.causal) text += CausalText(call, spot);
  if (mask.window) text += WindowText(call, spot);
  if (!mask.kv_lengths.empty()) {
    absl::StrAppend(&text, "      kv_lengths: the first ", mask.kv_lengths[spot.sequence], " of ",
                    CountOf(call.kv_length, "key"), "\n");
  }
  if (mask.q_segment_ids && mask.kv_segment_ids) text += SegmentsText(call, spot);
  return text;
}

}  // namespace attention::cli
