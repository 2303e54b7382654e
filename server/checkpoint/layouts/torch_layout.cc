// torch.nn.MultiheadAttention: query, key and value in one matrix, or in three where their widths differ.

#include <utility>

#include "absl/strings/str_cat.h"
#include "server/checkpoint/field_error.h"
#include "server/checkpoint/layouts/layout.h"
#include "server/checkpoint/layouts/linear_layouts.h"
#include "server/checkpoint/layouts/tensor_rules.h"

namespace attention::server {
namespace {

enum Part { kPacked, kQuery, kKey, kValue, kPackedBias, kOut, kOutBias };

constexpr absl::string_view kNames[] = {
    "in_proj_weight", "q_proj_weight",   "k_proj_weight", "v_proj_weight",
    "in_proj_bias",   "out_proj/weight", "out_proj/bias",
};

absl::Status CheckPresence(const LayerParts& parts) {
  for (const Part part : {kQuery, kKey, kValue}) {
    if (parts[kPacked] != nullptr && parts[part] != nullptr) {
      return absl::InvalidArgumentError(absl::StrCat(EscapeForMessage(parts[part]->name), ": found beside ",
                                                     EscapeForMessage(parts[kPacked]->name),
                                                     ", wanted one of the two"));
    }
    if (parts[kPacked] != nullptr) continue;
    if (auto status = parts.Require(part, "the other projections of the layer"); !status.ok()) return status;
  }
  return parts.Require(kOut, "the other projections of the layer");
}

absl::Status ReadPacked(const NamedTensor& packed, LayerTensors& layer) {
  if (auto status = CheckAxes(packed, 2, "3 · embed, embed"); !status.ok()) return status;
  const int64_t embed = packed.shape[1];
  if (packed.shape[0] % 3 != 0 || packed.shape[0] / 3 != embed) {
    return WrongShape(packed, "[3 · embed, embed]");
  }
  layer.query.kernel = MatrixRows(packed, 0, embed);
  layer.key.kernel = MatrixRows(packed, embed, 2 * embed);
  layer.value.kernel = MatrixRows(packed, 2 * embed, 3 * embed);
  return absl::OkStatus();
}

absl::Status ReadSeparate(const LayerParts& parts, LayerTensors& layer) {
  for (const auto& [part, projection] :
       {std::pair(kQuery, &layer.query), std::pair(kKey, &layer.key), std::pair(kValue, &layer.value)}) {
    absl::StatusOr<ProjectionSources> sources = WholeMatrix(*parts[part], nullptr);
    if (!sources.ok()) return sources.status();
    *projection = *std::move(sources);
  }
  return absl::OkStatus();
}

// The biases of query, key and value are one vector, also where the matrices are three.
absl::Status ReadPackedBias(const NamedTensor& bias, LayerTensors& layer) {
  if (auto status = CheckAxes(bias, 1, "features out of query, key and value"); !status.ok()) return status;
  int64_t rows = 0;
  for (ProjectionSources* projection : {&layer.query, &layer.key, &layer.value}) {
    const int64_t end = rows + projection->kernel.end - projection->kernel.begin;
    projection->bias = {.tensor = &bias, .begin = rows, .end = end, .transposed = false, .shape = {}};
    rows = end;
  }
  return CheckShape(bias, {rows}, Described(*layer.query.kernel.tensor));
}

absl::Status Read(const LayerParts& parts, const absl::StatusOr<int64_t>& num_heads, LayerTensors& layer) {
  if (absl::Status status = CheckPresence(parts); !status.ok()) return status;
  const absl::Status read = parts[kPacked] != nullptr ? ReadPacked(*parts[kPacked], layer) : ReadSeparate(parts, layer);
  if (!read.ok()) return read;
  if (parts[kPackedBias] != nullptr) {
    if (absl::Status status = ReadPackedBias(*parts[kPackedBias], layer); !status.ok()) return status;
  }
  absl::StatusOr<ProjectionSources> out = WholeMatrix(*parts[kOut], parts[kOutBias]);
  if (!out.ok()) return out.status();
  layer.out = *std::move(out);
  return SetHeads(num_heads, layer);
}

}  // namespace

const Layout kTorchLayout = {"torch", {kNames}, 4, Read};

}  // namespace attention::server
