#include <utility>

#include "absl/strings/str_cat.h"
#include "server/checkpoint/field_error.h"
#include "server/checkpoint/layouts/layout.h"
#include "server/checkpoint/layouts/tensor_rules.h"

// flax.linen.MultiHeadDotProductAttention and flax.nnx.MultiHeadAttention.
namespace attention::server {
namespace {

// Keys may have fewer heads than queries, and values another head size.
absl::Status CheckHeads(const LayerTensors& layer) {
  const NamedTensor &query = *layer.query.kernel.tensor, &key = *layer.key.kernel.tensor;
  const NamedTensor &value = *layer.value.kernel.tensor, &out = *layer.out.kernel.tensor;
  const int64_t num_heads = query.shape[1], head_dim = query.shape[2];
  if (num_heads % key.shape[1] != 0 || key.shape[2] != head_dim) {
    return WrongShape(
        key, absl::StrCat("shape [", key.shape[0], ", num_kv_heads, ", head_dim, "] with num_kv_heads a divisor of ",
                          num_heads, " to match ", Described(query)));
  }
  const Shape expected_value = {value.shape[0], key.shape[1], value.shape[2]};
  if (absl::Status status = CheckShape(value, expected_value, Described(key)); !status.ok()) return status;
  return CheckShape(out, {num_heads, value.shape[2], out.shape[2]},
                    absl::StrCat(Described(query), " and ", Described(value)));
}

absl::Status CheckKernels(const LayerTensors& layer) {
  struct Kernel {
    const NamedTensor& tensor;
    absl::string_view axes;
  };
  for (const auto& [kernel, axes] : {Kernel{*layer.query.kernel.tensor, "in_features, num_heads, head_dim"},
                                     Kernel{*layer.key.kernel.tensor, "in_k_features, num_kv_heads, head_dim"},
                                     Kernel{*layer.value.kernel.tensor, "in_v_features, num_kv_heads, value_head_dim"},
                                     Kernel{*layer.out.kernel.tensor, "num_heads, value_head_dim, out_features"}}) {
    if (absl::Status status = CheckAxes(kernel, 3, axes); !status.ok()) return status;
  }
  return CheckHeads(layer);
}

// REQUIRES: CheckKernels passed.
absl::Status CheckBiases(const LayerTensors& layer) {
  for (const ProjectionSources* projection : {&layer.query, &layer.key, &layer.value, &layer.out}) {
    if (!projection->bias) continue;
    if (absl::Status status = CheckFloat(*projection->bias.tensor); !status.ok()) return status;
    const Shape& kernel = projection->kernel.tensor->shape;
    const Shape expected = projection == &layer.out ? Shape{kernel[2]} : Shape{kernel[1], kernel[2]};
    if (auto status = CheckShape(*projection->bias.tensor, expected, Described(*projection->kernel.tensor));
        !status.ok()) {
      return status;
    }
  }
  return absl::OkStatus();
}

// REQUIRES: CheckKernels passed.
absl::Status CheckNorms(const LayerTensors& layer) {
  if (!layer.query_ln) return absl::OkStatus();
  const NamedTensor& query = *layer.query.kernel.tensor;
  for (const NamedTensor* scale : {layer.query_ln.tensor, layer.key_ln.tensor}) {
    if (absl::Status status = CheckFloat(*scale); !status.ok()) return status;
    if (auto status = CheckShape(*scale, {query.shape[2]}, Described(query)); !status.ok()) return status;
  }
  return absl::OkStatus();
}

// Checks the dtypes and shapes of the tensors of a layer, and that they match each other.
absl::Status CheckFlaxShapes(const LayerTensors& layer) {
  if (absl::Status status = CheckKernels(layer); !status.ok()) return status;
  if (absl::Status status = CheckBiases(layer); !status.ok()) return status;
  return CheckNorms(layer);
}

enum Part {
  kQueryKernel,
  kKeyKernel,
  kValueKernel,
  kOutKernel,
  kQueryBias,
  kKeyBias,
  kValueBias,
  kOutBias,
  kQueryNorm,
  kKeyNorm,
  kQueryNormBias,  // always refused
  kKeyNormBias,
};

constexpr absl::string_view kNames[] = {
    "query/kernel", "key/kernel", "value/kernel",   "out/kernel",   "query/bias",    "key/bias",
    "value/bias",   "out/bias",   "query_ln/scale", "key_ln/scale", "query_ln/bias", "key_ln/bias",
};

// flax writes all biases or none: a file with only some of them is incomplete.
absl::Status CheckBiases(const LayerParts& parts) {
  const Part biases[] = {kQueryBias, kKeyBias, kValueBias, kOutBias};
  for (const Part present : biases) {
    if (parts[present] == nullptr) continue;
    for (const Part bias : biases) {
      if (absl::Status status = parts.Require(bias, kNames[present]); !status.ok()) return status;
    }
  }
  return absl::OkStatus();
}

absl::Status CheckNorms(const LayerParts& parts) {
  for (const auto& [norm, other] : {std::pair(kQueryNorm, kKeyNorm), std::pair(kKeyNorm, kQueryNorm)}) {
    if (parts[other] == nullptr) continue;
    if (absl::Status status = parts.Require(norm, kNames[other]); !status.ok()) return status;
  }
  for (const Part bias : {kQueryNormBias, kKeyNormBias}) {
    if (parts[bias] == nullptr) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(EscapeForMessage(parts[bias]->name),
                     ": not supported; the LayerNorm of queries and keys (normalize_qk) has only a scale"));
  }
  return absl::OkStatus();
}

absl::Status CheckPresence(const LayerParts& parts) {
  for (const Part kernel : {kQueryKernel, kKeyKernel, kValueKernel, kOutKernel}) {
    if (auto status = parts.Require(kernel, "the other kernels of the layer"); !status.ok()) return status;
  }
  if (absl::Status status = CheckBiases(parts); !status.ok()) return status;
  return CheckNorms(parts);
}

// Ignores num_heads: the shapes show the heads.
absl::Status Read(const LayerParts& parts, const absl::StatusOr<int64_t>&, LayerTensors& layer) {
  if (absl::Status status = CheckPresence(parts); !status.ok()) return status;
  layer.query = {WholeTensor(parts[kQueryKernel]), WholeTensor(parts[kQueryBias])};
  layer.key = {WholeTensor(parts[kKeyKernel]), WholeTensor(parts[kKeyBias])};
  layer.value = {WholeTensor(parts[kValueKernel]), WholeTensor(parts[kValueBias])};
  layer.out = {WholeTensor(parts[kOutKernel]), WholeTensor(parts[kOutBias])};
  layer.query_ln = WholeTensor(parts[kQueryNorm]);
  layer.key_ln = WholeTensor(parts[kKeyNorm]);
  return CheckFlaxShapes(layer);
}

}  // namespace

const Layout kFlaxLayout = {
    .name = "flax",
    .required = "query/kernel, key/kernel, value/kernel and out/kernel",
    .parts = {.names = kNames, .optional_suffix = "/value"},  // nnx stores a parameter as its value and its metadata
    .anchors = 3,
    .read = Read,
};

}  // namespace attention::server
