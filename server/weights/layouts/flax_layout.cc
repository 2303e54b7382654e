// flax.linen.MultiHeadDotProductAttention and its nnx relative.

#include <utility>

#include "absl/strings/str_cat.h"
#include "server/weights/formats/echo.h"
#include "server/weights/layouts/flax_rules.h"
#include "server/weights/layouts/layout.h"

namespace attention::server {
namespace {

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
  kQueryNormBias,  // known to be refused
  kKeyNormBias,
};

constexpr absl::string_view kNames[] = {
    "query/kernel", "key/kernel", "value/kernel",   "out/kernel",   "query/bias",    "key/bias",
    "value/bias",   "out/bias",   "query_ln/scale", "key_ln/scale", "query_ln/bias", "key_ln/bias",
};

// A file of flax has all biases or none, so that one alone tells of a file that lost some.
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
    return absl::InvalidArgumentError(absl::StrCat(Echo(parts[bias]->name),
                                                   ": found, wanted none: the LayerNorm of queries and keys "
                                                   "(normalize_qk) has a scale alone"));
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

// The shapes show the heads.
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

// nnx names the value of a parameter beside its metadata.
const Layout kFlaxLayout = {"flax", {kNames, "/value"}, 3, Read};

}  // namespace attention::server
