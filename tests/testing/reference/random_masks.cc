#include "tests/testing/reference/random_masks.h"

#include <algorithm>
#include <limits>

#include "tests/testing/reference/reference_request.h"
#include "tests/testing/server/requests.h"
#include "tests/testing/server/wire.h"

namespace attention::test {
namespace {

using Sizes = std::vector<int64_t>;

// Some axes left out on the left, some of size 1.
Sizes DrawBroadcastShape(const Sizes& full, std::mt19937& random) {
  Sizes shape(full.begin() + DrawInteger(0, static_cast<int64_t>(full.size()), random), full.end());
  for (int64_t& size : shape) {
    if (random() % 2 == 0) size = 1;
  }
  return shape;
}

v1::Tensor DrawDense(const Sizes& scores, std::mt19937& random) {
  const Sizes shape = DrawBroadcastShape(scores, random);
  std::vector<uint8_t> mask(*server::ElementCount(shape));
  for (uint8_t& entry : mask) entry = random() % 4 != 0;
  return WireBools(shape, mask);
}

v1::Tensor DrawBias(const Sizes& scores, std::mt19937& random) {
  const Sizes shape = DrawBroadcastShape(scores, random);
  std::vector<float> bias = DrawNumbers(*server::ElementCount(shape), random);
  for (float& number : bias) {
    if (random() % 4 == 0) number = -std::numeric_limits<float>::infinity();
  }
  return WireFloats(shape, bias);
}

// The third kind of diagonal after the two corners, in the order of MaskPart.
v1::Diagonal DrawDiagonal(int kind, int64_t q_length, int64_t kv_length, std::mt19937& random) {
  v1::Diagonal diagonal;
  if (kind == 0) diagonal.set_corner(v1::Diagonal::CORNER_TOP_LEFT);
  if (kind == 1) diagonal.set_corner(v1::Diagonal::CORNER_BOTTOM_RIGHT);
  if (kind == 2) diagonal.set_offset(DrawInteger(-q_length - 1, kv_length + 1, random));
  return diagonal;
}

v1::SlidingWindow DrawWindow(const v1::Diagonal& diagonal, int64_t kv_length, std::mt19937& random) {
  v1::SlidingWindow window;
  *window.mutable_diagonal() = diagonal;
  if (random() % 4 != 0) window.set_left(DrawInteger(-1, kv_length / 2, random));
  if (random() % 4 != 0) window.set_right(DrawInteger(-1, kv_length / 2, random));
  return window;
}

// One number for each row of the batch.
template <typename Field>
void DrawLengths(int64_t batch, int64_t length, std::mt19937& random, Field* lengths) {
  for (int64_t row = 0; row < batch; ++row) lengths->Add(DrawInteger(0, length, random));
}

// Runs of equal ids, which may appear again later, with or without the batch axes.
v1::Tensor DrawSegments(Sizes batch, int64_t length, std::mt19937& random) {
  Sizes shape = random() % 2 == 0 ? std::move(batch) : Sizes();
  shape.push_back(length);
  const int64_t count = *server::ElementCount(shape);
  std::vector<int32_t> ids(count);
  int32_t id = -1;
  for (int64_t i = 0; i < count; ++i) {
    if (i % length == 0 || random() % 8 == 0) id = static_cast<int32_t>(DrawInteger(-1, 2, random));
    ids[i] = id;
  }
  if (random() % 2 == 0) return WireInt32s(shape, ids);
  return WireInt64s(shape, {ids.begin(), ids.end()});
}

void AddSegments(const Sizes& scores, std::mt19937& random, v1::AttendRequest& request) {
  v1::Mask& mask = *request.mutable_mask();
  *mask.mutable_q_segment_ids() = DrawSegments(BatchAxes(request), scores[scores.size() - 2], random);
  if (request.has_inputs_k() || random() % 2 == 0) {
    *mask.mutable_kv_segment_ids() = DrawSegments(BatchAxes(request), scores.back(), random);
  }
}

int GroupOf(MaskPart part) {
  if (part >= MaskPart::kCausalTopLeft && part <= MaskPart::kCausalOffset) return 1;
  if (part >= MaskPart::kWindowTopLeft && part <= MaskPart::kWindowOffset) return 2;
  return 3 + static_cast<int>(part);
}

}  // namespace

std::string NameOf(MaskPart part) {
  static constexpr const char* kNames[] = {
      "Dense",        "CausalTopLeft", "CausalBottomRight", "CausalOffset", "WindowTopLeft", "WindowBottomRight",
      "WindowOffset", "KvLengths",     "QLengths",          "SegmentIds",   "Bias"};
  return kNames[static_cast<int>(part)];
}

bool Exclude(MaskPart a, MaskPart b) { return GroupOf(a) == GroupOf(b); }

void AddMaskPart(MaskPart part, const server::HeadShape& heads, std::mt19937& random, v1::AttendRequest& request) {
  const Sizes scores = ScoresShape(request, heads);
  const int64_t q_length = scores[scores.size() - 2];
  const int64_t kv_length = scores.back();
  const int64_t batch = *server::ElementCount(BatchAxes(request));
  v1::Mask& mask = *request.mutable_mask();
  switch (part) {
    case MaskPart::kDense:
      *mask.mutable_dense() = DrawDense(scores, random);
      return;
    case MaskPart::kCausalTopLeft:
    case MaskPart::kCausalBottomRight:
    case MaskPart::kCausalOffset:
      *mask.mutable_causal() = DrawDiagonal(static_cast<int>(part) - static_cast<int>(MaskPart::kCausalTopLeft),
                                            q_length, kv_length, random);
      return;
    case MaskPart::kWindowTopLeft:
    case MaskPart::kWindowBottomRight:
    case MaskPart::kWindowOffset:
      *mask.mutable_window() =
          DrawWindow(DrawDiagonal(static_cast<int>(part) - static_cast<int>(MaskPart::kWindowTopLeft), q_length,
                                  kv_length, random),
                     kv_length, random);
      return;
    case MaskPart::kKvLengths:
      DrawLengths(batch, kv_length, random, mask.mutable_kv_lengths());
      return;
    case MaskPart::kQLengths:
      DrawLengths(batch, q_length, random, mask.mutable_q_lengths());
      return;
    case MaskPart::kSegmentIds:
      AddSegments(scores, random, request);
      return;
    case MaskPart::kBias:
      *request.mutable_bias() = DrawBias(scores, random);
      return;
  }
}

void AddRandomParts(const server::HeadShape& heads, std::mt19937& random, v1::AttendRequest& request) {
  std::vector<MaskPart> added;
  for (int64_t parts = DrawInteger(0, 3, random); parts > 0; --parts) {
    const MaskPart part = kMaskParts[random() % kMaskParts.size()];
    const bool excluded = std::any_of(added.begin(), added.end(), [&](MaskPart other) { return Exclude(part, other); });
    if (excluded) continue;
    AddMaskPart(part, heads, random, request);
    added.push_back(part);
  }
  v1::AttendOptions& options = *request.mutable_options();
  if (random() % 3 == 0) options.set_scale(static_cast<float>(DrawInteger(-4, 4, random)) / 4);
  if (random() % 3 == 0) options.set_softcap(static_cast<float>(DrawInteger(1, 8, random)) / 2);
  if (random() % 2 == 0) options.set_empty_rows(v1::EMPTY_ROWS_ZERO);
}

}  // namespace attention::test
