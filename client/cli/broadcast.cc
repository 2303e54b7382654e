#include "client/cli/broadcast.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "client/cli/number_format.h"

namespace attention::cli {
namespace {

bool Fits(const Numbers& tensor, absl::Span<const int64_t> shape) {
  const int64_t missing = static_cast<int64_t>(shape.size()) - tensor.rank();
  if (missing < 0) return false;
  for (int64_t axis = 0; axis < tensor.rank(); ++axis) {
    if (tensor.shape[axis] != 1 && tensor.shape[axis] != shape[missing + axis]) return false;
  }
  return true;
}

// For each axis of `shape`, how far the tensor moves when its index grows by one.
std::vector<int64_t> Strides(const Numbers& tensor, absl::Span<const int64_t> shape) {
  std::vector<int64_t> strides(shape.size(), 0);
  int64_t stride = 1;
  for (int64_t axis = tensor.rank() - 1, target = shape.size() - 1; axis >= 0; --axis, --target) {
    strides[target] = tensor.shape[axis] == 1 ? 0 : stride;
    stride *= tensor.shape[axis];
  }
  return strides;
}

}  // namespace

absl::StatusOr<std::vector<double>> Broadcast(const Numbers& tensor, absl::Span<const int64_t> shape) {
  if (!Fits(tensor, shape)) {
    return absl::InvalidArgumentError(
        absl::StrCat("shape ", FormatShape(tensor.shape), " does not broadcast to ", FormatShape(shape)));
  }
  const std::vector<int64_t> strides = Strides(tensor, shape);
  int64_t count = 1;
  for (int64_t size : shape) count *= size;
  std::vector<double> values(count);
  for (int64_t i = 0; i < count; ++i) {
    int64_t rest = i, from = 0;
    for (int64_t axis = shape.size() - 1; axis >= 0; --axis) {
      from += rest % shape[axis] * strides[axis];
      rest /= shape[axis];
    }
    values[i] = tensor.values[from];
  }
  return values;
}

}  // namespace attention::cli
