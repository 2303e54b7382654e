#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "server/engine/layer.h"
#include "server/weights/formats/tensor_map.h"
#include "server/weights/weight_set.h"

namespace attention::server {

// One of the four projections of a layer, as it stands in a checkpoint.
struct ProjectionTensors {
  const NamedTensor* kernel = nullptr;
  const NamedTensor* bias = nullptr;  // null: zero
};

// One attention layer of a checkpoint whose shapes have been checked against each other. Points into the TensorMap.
struct LayerTensors {
  std::string name;  // of the weight set
  LayerShape shape;
  ProjectionTensors query, key, value, out;
  const NamedTensor* query_ln = nullptr;  // scales of the LayerNorms; null, both of them: no LayerNorm
  const NamedTensor* key_ln = nullptr;
  std::vector<ParameterInfo> parameters;  // sorted by name
};

// Bytes that these parameters take in float32.
int64_t Float32Bytes(absl::Span<const ParameterInfo> parameters);

struct CheckpointLayers {
  std::vector<LayerTensors> layers;         // sorted by name, at least one
  std::vector<std::string> unused_tensors;  // sorted
};

// Finds every attention layer in the tensors of a checkpoint: each PATH with PATH/query/kernel, PATH/key/kernel,
// PATH/value/kernel and PATH/out/kernel, with the shapes that attention.v1.WeightService documents. Its name is
// `checkpoint`/PATH, in lower case and without a leading component "params", or `checkpoint` where PATH is empty.
//
// Nothing is converted or copied yet. INVALID_ARGUMENT, with the parameter, the wanted and the found shape, if there is
// no layer; a PATH with a query, key or value kernel lacks another of the four; it has one of query_ln/scale and
// key_ln/scale alone, or a bias of a LayerNorm; a shape does not fit the others or has a size 0; a dtype is not a
// float; a name breaks the rule of CheckName or would be given twice.
absl::StatusOr<CheckpointLayers> FindLayers(absl::string_view checkpoint, const TensorMap& tensors);

// Converts the parameters of one layer to float32.
LayerParameters ReadParameters(const LayerTensors& layer);

}  // namespace attention::server
