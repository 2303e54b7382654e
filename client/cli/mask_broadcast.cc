#include "client/cli/mask_broadcast.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "client/cli/number_format.h"

namespace attention::cli {
namespace {

bool Fits(const Numbers& mask, absl::Span<const int64_t> shape) {
  const int64_t missing = static_cast<int64_t>(shape.size()) - mask.rank();
  if (missing < 0) return false;
  for (int64_t axis = 0; axis < mask.rank(); ++axis) {
    if (mask.shape[axis] != 1 && mask.shape[axis] != shape[missing + axis]) return false;
  }
  return true;
}

// For each axis of `shape`, how far the mask moves when its index grows by one.
std::vector<int64_t> Strides(const Numbers& mask, absl::Span<const int64_t> shape) {
  std::vector<int64_t> strides(shape.size(), 0);
  int64_t stride = 1;
  for (int64_t axis = mask.rank() - 1, target = shape.size() - 1; axis >= 0; --axis, --target) {
    strides[target] = mask.shape[axis] == 1 ? 0 : stride;
    stride *= mask.shape[axis];
  }
  return strides;
}

}  // namespace

absl::StatusOr<std::vector<uint8_t>> BroadcastMask(const Numbers& mask, absl::Span<const int64_t> shape) {
  if (!Fits(mask, shape)) {
    return absl::InvalidArgumentError(
        absl::StrCat("mask: shape ", FormatShape(mask.shape), " does not broadcast to ", FormatShape(shape)));
  }
  const std::vector<int64_t> strides = Strides(mask, shape);
  int64_t count = 1;
  for (int64_t size : shape) count *= size;
  std::vector<uint8_t> visible(count);
  for (int64_t i = 0; i < count; ++i) {
    int64_t rest = i, from = 0;
    for (int64_t axis = shape.size() - 1; axis >= 0; --axis) {
      from += rest % shape[axis] * strides[axis];
      rest /= shape[axis];
    }
    visible[i] = mask.values[from] != 0;
  }
  return visible;
}

}  // namespace attention::cli
