#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "server/checkpoint/formats/tensor_map.h"
#include "server/checkpoint/layer_parameters.h"
#include "server/checkpoint/layouts/parameter_source.h"

namespace attention::server {

// One of the four projections of a layer. A bias without a tensor is zero.
struct ProjectionSources {
  ParameterSource kernel, bias;
};

// The inputs and the expected output of a layer that a checkpoint contains as a self-test; see
// attention.v1.WeightService. inputs_q and output are never null. Dtypes and features have been checked; the other axes
// are as in a request.
struct SelfTestTensors {
  const NamedTensor* inputs_q = nullptr;
  const NamedTensor* inputs_k = nullptr;  // null: inputs_q
  const NamedTensor* inputs_v = nullptr;  // null: inputs_k
  const NamedTensor* mask = nullptr;      // null: none
  const NamedTensor* output = nullptr;
  double tolerance = 1e-4;
};

// One attention layer of a checkpoint, whose shapes match each other. Points into the tensors of the TensorMap, which
// may be moved.
struct LayerTensors {
  std::string name;    // of the weight set
  std::string path;    // PATH in the file, with slashes, with its capitals, without "params"; may be empty
  std::string layout;  // Layout::name
  LayerShape shape;
  ProjectionSources query, key, value, out;
  ParameterSource query_ln, key_ln;  // scales of the LayerNorms; both or neither have a tensor
  std::optional<SelfTestTensors> self_test;
  std::vector<ParameterInfo> parameters;  // as in the file, sorted by name
};

// Bytes of these parameters in float32.
int64_t Float32Bytes(absl::Span<const ParameterInfo> parameters);

struct CheckpointLayers {
  std::vector<LayerTensors> layers;         // sorted by name, at least one
  std::vector<std::string> unused_tensors;  // sorted
};

struct LayerOptions {
  // Number of heads of every layer whose shapes do not show it. 0: as in the metadata of the file.
  int64_t num_heads = 0;
};

// Finds all attention layers in the tensors of a checkpoint, in all Layouts(), which attention.v1.WeightService
// documents. The name of a layer is `checkpoint`/PATH, in lower case and without a leading component "params", or
// `checkpoint` if PATH is empty. "." and "/" in tensor names are the same separator. A last component "value" after a
// parameter of flax (nnx) is ignored. Tensors below "opt_state", the optimizer state of flax, are not layers.
//
// A query, key or value projection identifies a layer, so a layer that lacks another tensor is refused, not ignored. An
// output projection alone, which many other modules have, does not. No data is converted or copied.
//
// INVALID_ARGUMENT, with the parameter and the expected and actual shape, if there is no layer; a layer lacks a tensor,
// or has only some of the four biases in the flax layout; a layer is in two layouts, or a tensor is duplicate; a shape
// does not match the others or has a size 0; a tensor of a layer is not usable, or its dtype is not a float type; the
// number of heads is unknown or does not divide the features; a self-test lacks a tensor; a name is invalid for
// CheckName or is duplicate.
//
// UNIMPLEMENTED, with the tensor, if a layer has a tensor that changes its output and that the engine does not support;
// see CheckForeignTensor.
absl::StatusOr<CheckpointLayers> FindLayers(absl::string_view checkpoint, const TensorMap& tensors,
                                            const LayerOptions& options = {});

// Converts the parameters of one layer to float32.
LayerParameters ReadParameters(const LayerTensors& layer);

}  // namespace attention::server
