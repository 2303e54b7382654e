#pragma once

#include <array>
#include <random>
#include <string>

#include "attention/v1/attention.pb.h"
#include "server/engine/attention_call.h"

namespace attention::test {

// The ways in which a request can hide keys from queries.
enum class MaskPart {
  kDense,
  kCausalTopLeft,
  kCausalBottomRight,
  kCausalOffset,
  kWindowTopLeft,
  kWindowBottomRight,
  kWindowOffset,
  kKvLengths,
  kQLengths,
  kSegmentIds,
  kBias,
};

inline constexpr std::array kMaskParts = {
    MaskPart::kDense,        MaskPart::kCausalTopLeft, MaskPart::kCausalBottomRight,
    MaskPart::kCausalOffset, MaskPart::kWindowTopLeft, MaskPart::kWindowBottomRight,
    MaskPart::kWindowOffset, MaskPart::kKvLengths,     MaskPart::kQLengths,
    MaskPart::kSegmentIds,   MaskPart::kBias,
};

// "Dense", "CausalTopLeft", …
std::string NameOf(MaskPart part);

// True if the two fill the same field of a request.
bool Exclude(MaskPart a, MaskPart b);

// Adds a random one of its kind to a request: dense masks and biases with axes left out or of size 1, three of four
// entries true (a bias: finite); diagonals that may leave the rectangle; lengths from none to all; segment ids in runs.
// Deterministic for a given `random`. `heads` are those of the layer, or of the request.
void AddMaskPart(MaskPart part, const server::HeadShape& heads, std::mt19937& random, v1::AttendRequest& request);

// Adds zero to three parts, and sometimes a scale, a soft cap or another rule for empty rows (never ERROR).
void AddRandomParts(const server::HeadShape& heads, std::mt19937& random, v1::AttendRequest& request);

}  // namespace attention::test
