#include "server/weights/self_test.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "absl/strings/str_cat.h"
#include "server/checkpoint/field_error.h"

namespace attention::server {
namespace {

absl::Status Failed(absl::StatusCode code, const std::string& weight_set, absl::string_view what) {
  return absl::Status(code, absl::StrCat("self-test of weight set ", EscapeForMessage(weight_set), ": ", what));
}

// The element whose difference is the largest part of what is allowed there; NaN is larger than all. REQUIRES: as many
// numbers in both, at least one.
struct Worst {
  size_t element = 0;
  double difference = 0;
  double share = 0;  // of what is allowed
};

Worst FindWorst(const std::vector<float>& got, const std::vector<float>& wanted, double tolerance) {
  Worst worst;
  for (size_t i = 0; i < got.size(); ++i) {
    const double difference = std::abs(double{got[i]} - double{wanted[i]});
    const double share = difference / (tolerance * std::max(1.0, std::abs(double{wanted[i]})));
    const bool none_allowed = difference > 0 || std::isnan(difference);
    const double comparable = std::isnan(share) ? (none_allowed ? INFINITY : 0) : share;
    if (comparable > worst.share) worst = {i, difference, comparable};
  }
  return worst;
}

// "[0, 3, 17]"
std::string Position(size_t element, const Shape& shape) {
  Shape position(shape.size());
  for (size_t axis = shape.size(); axis-- > 0;) {
    position[axis] = static_cast<int64_t>(element % shape[axis]);
    element /= shape[axis];
  }
  return ShapeString(position);
}

}  // namespace

absl::Status RunSelfTest(const LayerTensors& tensors, const Layer& layer, const ComputeSelfTest& compute) {
  if (!tensors.self_test || compute == nullptr) return absl::OkStatus();
  const SelfTestTensors& test = *tensors.self_test;
  const auto got = compute(layer, test);
  if (!got.ok()) return Failed(got.status().code(), tensors.name, got.status().message());
  if (got->shape != test.output->shape) {
    return Failed(absl::StatusCode::kInvalidArgument, tensors.name,
                  absl::StrCat(EscapeForMessage(test.output->name), ": shape ", ShapeString(test.output->shape),
                               ", wanted ", ShapeString(got->shape)));
  }
  std::vector<float> wanted(got->values.size());
  ToFloat32(test.output->dtype, test.output->data.data(), static_cast<int64_t>(wanted.size()), wanted.data());
  const Worst worst = FindWorst(got->values, wanted, test.tolerance);
  if (worst.share <= 1) return absl::OkStatus();
  return Failed(absl::StatusCode::kFailedPrecondition, tensors.name,
                absl::StrCat("output ", Position(worst.element, got->shape), " is ", got->values[worst.element],
                             ", wanted ", wanted[worst.element], ": a difference of ", worst.difference,
                             ", beyond the tolerance ", test.tolerance));
}

}  // namespace attention::server
