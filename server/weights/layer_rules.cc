#include "server/weights/layer_rules.h"

#include <optional>
#include <string>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "server/weights/formats/echo.h"

namespace attention::server {
namespace {

absl::Status Wrong(const NamedTensor& tensor, absl::string_view found, absl::string_view wanted) {
  return absl::InvalidArgumentError(absl::StrCat(Echo(tensor.name), ": ", found, ", wanted ", wanted));
}

absl::Status WrongShape(const NamedTensor& tensor, absl::string_view wanted) {
  return Wrong(tensor, absl::StrCat("shape ", ShapeString(tensor.shape)), wanted);
}

std::string Described(const NamedTensor& tensor) {
  return absl::StrCat(Echo(tensor.name), " ", ShapeString(tensor.shape));
}

// What holds for every parameter by itself.
absl::Status CheckTensor(const NamedTensor& tensor) {
  if (!IsFloat(tensor.dtype)) {
    return Wrong(tensor, absl::StrCat("dtype ", DTypeName(tensor.dtype)), "float32, bfloat16, float16 or float64");
  }
  if (absl::c_any_of(tensor.shape, [](int64_t size) { return size < 1; })) {
    return WrongShape(tensor, "sizes of at least 1");
  }
  const std::optional<int64_t> bytes = ByteCount(tensor.shape, tensor.dtype);
  if (bytes && static_cast<uint64_t>(*bytes) == tensor.data.size()) return absl::OkStatus();
  return WrongShape(tensor, absl::StrCat("one of ", tensor.data.size(), " bytes"));
}

absl::Status CheckKernel(const NamedTensor& kernel, absl::string_view axes) {
  if (absl::Status status = CheckTensor(kernel); !status.ok()) return status;
  return kernel.shape.size() == 3 ? absl::OkStatus() : WrongShape(kernel, absl::StrCat("3 axes: ", axes));
}

absl::Status CheckShape(const NamedTensor& tensor, const Shape& wanted, absl::string_view because) {
  if (tensor.shape == wanted) return absl::OkStatus();
  return WrongShape(tensor, absl::StrCat(ShapeString(wanted), " to go with ", because));
}

// The key's heads may be fewer than the query's, and the value's another size.
absl::Status CheckHeads(const LayerTensors& layer) {
  const NamedTensor &query = *layer.query.kernel, &key = *layer.key.kernel;
  const NamedTensor &value = *layer.value.kernel, &out = *layer.out.kernel;
  const int64_t num_heads = query.shape[1], head_dim = query.shape[2];
  if (num_heads % key.shape[1] != 0 || key.shape[2] != head_dim) {
    return WrongShape(key, absl::StrCat("[", key.shape[0], ", num_kv_heads, ", head_dim,
                                        "], num_kv_heads a divisor of ", num_heads, ", to go with ", Described(query)));
  }
  const Shape wanted_value = {value.shape[0], key.shape[1], value.shape[2]};
  if (absl::Status status = CheckShape(value, wanted_value, Described(key)); !status.ok()) return status;
  return CheckShape(out, {num_heads, value.shape[2], out.shape[2]},
                    absl::StrCat(Described(query), " and ", Described(value)));
}

absl::Status CheckKernels(const LayerTensors& layer) {
  if (auto status = CheckKernel(*layer.query.kernel, "in_features, num_heads, head_dim"); !status.ok()) return status;
  if (auto status = CheckKernel(*layer.key.kernel, "in_k_features, num_kv_heads, head_dim"); !status.ok()) {
    return status;
  }
  if (auto status = CheckKernel(*layer.value.kernel, "in_v_features, num_kv_heads, value_head_dim"); !status.ok()) {
    return status;
  }
  if (auto status = CheckKernel(*layer.out.kernel, "num_heads, value_head_dim, out_features"); !status.ok()) {
    return status;
  }
  return CheckHeads(layer);
}

// REQUIRES: CheckKernels passed.
absl::Status CheckBiases(const LayerTensors& layer) {
  for (const ProjectionTensors* projection : {&layer.query, &layer.key, &layer.value, &layer.out}) {
    if (projection->bias == nullptr) continue;
    if (absl::Status status = CheckTensor(*projection->bias); !status.ok()) return status;
    const Shape& kernel = projection->kernel->shape;
    const Shape wanted = projection == &layer.out ? Shape{kernel[2]} : Shape{kernel[1], kernel[2]};
    if (auto status = CheckShape(*projection->bias, wanted, Described(*projection->kernel)); !status.ok()) {
      return status;
    }
  }
  return absl::OkStatus();
}

// REQUIRES: CheckKernels passed.
absl::Status CheckNorms(const LayerTensors& layer) {
  if (layer.query_ln == nullptr) return absl::OkStatus();
  const NamedTensor& query = *layer.query.kernel;
  for (const NamedTensor* scale : {layer.query_ln, layer.key_ln}) {
    if (absl::Status status = CheckTensor(*scale); !status.ok()) return status;
    if (auto status = CheckShape(*scale, {query.shape[2]}, Described(query)); !status.ok()) return status;
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckLayer(const LayerTensors& layer) {
  if (absl::Status status = CheckKernels(layer); !status.ok()) return status;
  if (absl::Status status = CheckBiases(layer); !status.ok()) return status;
  return CheckNorms(layer);
}

LayerShape ShapeOf(const LayerTensors& layer) {
  const Shape &query = layer.query.kernel->shape, &key = layer.key.kernel->shape, &value = layer.value.kernel->shape;
  return {.in_features = query[0],
          .in_k_features = key[0],
          .in_v_features = value[0],
          .heads = {.num_heads = query[1], .num_kv_heads = key[1], .head_dim = query[2], .value_head_dim = value[2]},
          .out_features = layer.out.kernel->shape[2]};
}

}  // namespace attention::server
