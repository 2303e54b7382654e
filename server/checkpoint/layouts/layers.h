#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "server/checkpoint/formats/tensor_map.h"
#include "server/checkpoint/layouts/parameter_source.h"
#include "server/checkpoint/layer_parameters.h"

namespace attention::server {

// One of the four projections of a layer.
struct ProjectionSources {
  ParameterSource kernel, bias;  // a bias without a tensor is zero
};

// What a checkpoint holds to try a layer with, before it is served; attention.v1.WeightService says how. inputs_q and
// output are there; dtypes and the features of each are checked, other axes are those of a request.
struct SelfTestTensors {
  const NamedTensor* inputs_q = nullptr;
  const NamedTensor* inputs_k = nullptr;  // null: inputs_q
  const NamedTensor* inputs_v = nullptr;  // null: inputs_k
  const NamedTensor* mask = nullptr;      // null: none
  const NamedTensor* output = nullptr;
  double tolerance = 1e-4;
};

// One attention layer of a checkpoint whose shapes have been checked against each other. Points into the TensorMap,
// also after this has been moved.
struct LayerTensors {
  std::string name;    // of the weight set
  std::string path;    // PATH in the file, with slashes, in its own case and without "params"; may be empty
  std::string layout;  // "flax", "torch", "bert" or "projections"
  LayerShape shape;
  ProjectionSources query, key, value, out;
  ParameterSource query_ln, key_ln;  // scales of the LayerNorms; both without a tensor: no LayerNorm
  std::optional<SelfTestTensors> self_test;
  std::vector<ParameterInfo> parameters;  // as they stand in the file, sorted by name
};

// Bytes that these parameters take in float32.
int64_t Float32Bytes(absl::Span<const ParameterInfo> parameters);

struct CheckpointLayers {
  std::vector<LayerTensors> layers;         // sorted by name, at least one
  std::vector<std::string> unused_tensors;  // sorted
};

struct LayerOptions {
  // Of every layer whose heads cannot be seen from its shapes. 0: as the metadata of the file says.
  int64_t num_heads = 0;
};

// Finds every attention layer in the tensors of a checkpoint, in each of the layouts that attention.v1.WeightService
// documents. A layer's name is `checkpoint`/PATH, in lower case and without a leading component "params", or
// `checkpoint` where PATH is empty. "." and "/" in the names of a file are one separator, as is a last component
// "value" behind a parameter of flax (nnx). What stands below "opt_state", the copies that an optimizer of flax keeps,
// is no layer.
//
// A query, key or value makes a layer, so that one which lacks another of its tensors is refused rather than left out;
// an output projection alone, as many modules have one, does not. Nothing is converted or copied yet.
//
// INVALID_ARGUMENT, with the parameter, the wanted and the found shape, if there is no layer; a layer lacks a tensor,
// or has some of the four biases in the flax layout; it is there in two layouts, or a tensor twice; a shape does not
// fit the others or has a size 0; a dtype is not a float; the heads cannot be known, or their number does not divide
// the features; a self-test lacks a tensor; a name breaks the rule of CheckName or would be given twice.
//
// UNIMPLEMENTED, with the tensor, if a layer has what would change its result but the engine does not compute: see
// CheckForeignTensors.
absl::StatusOr<CheckpointLayers> FindLayers(absl::string_view checkpoint, const TensorMap& tensors,
                                            const LayerOptions& options = {});

// Converts the parameters of one layer to float32.
LayerParameters ReadParameters(const LayerTensors& layer);

}  // namespace attention::server
