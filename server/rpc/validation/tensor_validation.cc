#include "server/rpc/validation/tensor_validation.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "server/checkpoint/field_error.h"

namespace attention::server {
namespace {

bool Accepts(AcceptedDTypes accepted, DType dtype) {
  switch (accepted) {
    case AcceptedDTypes::kFloat:
      return IsFloat(dtype);
    case AcceptedDTypes::kBool:
      return dtype == DType::kBool;
    case AcceptedDTypes::kId:
      return dtype == DType::kInt32 || dtype == DType::kInt64;
    case AcceptedDTypes::kCompute:
      return dtype == DType::kFloat32 || dtype == DType::kBFloat16;
  }
  return false;
}

absl::string_view Text(AcceptedDTypes accepted) {
  switch (accepted) {
    case AcceptedDTypes::kFloat:
      return "float32, bfloat16, float16 or float64";
    case AcceptedDTypes::kBool:
      return "bool (true = attend; numbers to add to the scores belong in bias)";
    case AcceptedDTypes::kId:
      return "int32 or int64";
    case AcceptedDTypes::kCompute:
      return "float32 or bfloat16";
  }
  return "";
}

absl::Status CheckSizes(absl::string_view field, absl::Span<const int64_t> shape) {
  // Checked first, so that no message prints a shape of a million axes.
  if (shape.size() > kMaxAxes) return FieldError(field, absl::StrCat("at most ", kMaxAxes, " axes"), shape.size());
  if (absl::c_any_of(shape, [](int64_t size) { return size < 0; })) {
    return FieldError(field, "sizes of at least 0", absl::StrCat("shape ", ShapeString(shape)));
  }
  return absl::OkStatus();
}

absl::Status CheckBytes(absl::string_view field, const TensorView& view, int64_t actual) {
  const std::optional<int64_t> required = ByteCount(view.shape, view.dtype);
  if (required == actual) return absl::OkStatus();
  return FieldError(field,
                    absl::StrCat(required ? absl::StrCat(*required) : "at least 2^63", " bytes for shape ",
                                 ShapeString(view.shape), " of ", DTypeName(view.dtype)),
                    actual);
}

// "[0, 1]": the axes of element `element` of a row-major tensor.
std::string IndexText(absl::Span<const int64_t> shape, int64_t element) {
  Shape index(shape.size());
  for (size_t axis = shape.size(); axis-- > 0;) {
    index[axis] = element % shape[axis];
    element /= shape[axis];
  }
  return ShapeString(index);
}

// The sizes of the scores as a shape.
Shape ToShape(const ScoresShape& scores) {
  Shape shape(scores.batch.begin(), scores.batch.end());
  shape.insert(shape.end(), {scores.num_heads, scores.q_length, scores.kv_length});
  return shape;
}

bool BroadcastsTo(absl::Span<const int64_t> from, absl::Span<const int64_t> to) {
  const auto size_broadcasts = [](int64_t from_size, int64_t to_size) {
    return from_size == 1 || from_size == to_size;
  };
  return from.size() <= to.size() && std::equal(from.rbegin(), from.rend(), to.rbegin(), size_broadcasts);
}

// The stride of the tensor along each axis of the scores; 0 where its elements are repeated.
Shape BroadcastStrides(absl::Span<const int64_t> tensor, size_t axes) {
  Shape strides(axes, 0);
  int64_t stride = 1;
  for (size_t i = 0; i < tensor.size(); ++i) {
    const int64_t size = tensor[tensor.size() - 1 - i];
    strides[axes - 1 - i] = size == 1 ? 0 : stride;
    stride *= size;
  }
  return strides;
}

// The offset of each row of the folded batch. Starts with one row; each axis, outermost first, replaces every row by
// `size` rows.
std::vector<int64_t> BatchOffsets(absl::Span<const int64_t> batch, absl::Span<const int64_t> strides) {
  std::vector<int64_t> offsets = {0};
  for (size_t axis = 0; axis < batch.size(); ++axis) {
    std::vector<int64_t> expanded;
    expanded.reserve(offsets.size() * batch[axis]);
    for (const int64_t offset : offsets) {
      for (int64_t i = 0; i < batch[axis]; ++i) expanded.push_back(offset + i * strides[axis]);
    }
    offsets = std::move(expanded);
  }
  return offsets;
}

}  // namespace

absl::Status CheckDType(absl::string_view field, v1::DataType dtype, AcceptedDTypes accepted) {
  const std::optional<DType> known = DTypeFromProto(dtype);
  if (known && Accepts(accepted, *known)) return absl::OkStatus();
  return FieldError(field, absl::StrCat("dtype ", Text(accepted)), DataTypeText(dtype));
}

absl::StatusOr<TensorView> CheckTensor(absl::string_view field, const v1::Tensor& tensor, AcceptedDTypes accepted) {
  if (auto status = CheckDType(field, tensor.dtype(), accepted); !status.ok()) return status;
  if (auto status = CheckSizes(field, ShapeOf(tensor)); !status.ok()) return status;
  const TensorView view = ViewOf(tensor);
  if (auto status = CheckBytes(field, view, tensor.data().size()); !status.ok()) return status;
  return view;
}

absl::Status CheckFloat32Range(absl::string_view field, const TensorView& tensor, BelowFloat32 below) {
  if (tensor.dtype != DType::kFloat64) return absl::OkStatus();
  const int64_t count = *ElementCount(tensor.shape);
  for (int64_t i = 0; i < count; ++i) {
    double number;
    std::memcpy(&number, tensor.data + i * sizeof(number), sizeof(number));
    if (!std::isinf(static_cast<float>(number)) || std::isinf(number)) continue;
    if (number < 0 && below == BelowFloat32::kMinusInfinity) continue;
    return FieldError(field, "numbers within the range of float32",
                      absl::StrCat(number, " at ", IndexText(tensor.shape, i)));
  }
  return absl::OkStatus();
}

absl::StatusOr<ScoresTensor> BroadcastToScores(absl::string_view field, const TensorView& tensor,
                                               const ScoresShape& scores) {
  const Shape shape = ToShape(scores);
  if (!BroadcastsTo(tensor.shape, shape)) {
    return FieldError(
        field,
        absl::StrCat("a shape that broadcasts to [batch…, num_heads, q_length, kv_length] = ", ShapeString(shape)),
        ShapeString(tensor.shape));
  }
  if (absl::c_linear_search(shape, 0)) return ScoresTensor();

  const Shape strides = BroadcastStrides(tensor.shape, shape.size());
  const size_t batch_axes = scores.batch.size();
  return ScoresTensor{.dtype = tensor.dtype,
                      .data = tensor.data,
                      .batch_offsets = BatchOffsets(scores.batch, strides),
                      .head_stride = strides[batch_axes],
                      .q_stride = strides[batch_axes + 1],
                      .kv_stride = strides[batch_axes + 2]};
}

}  // namespace attention::server
