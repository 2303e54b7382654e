#pragma once

#include <cstddef>
#include <list>
#include <type_traits>
#include <vector>

#include "absl/status/statusor.h"
#include "server/checkpoint/formats/tensor_map.h"
#include "server/checkpoint/layouts/layers.h"

namespace attention::server {

// One layer whose tensors, those of its self-test included, are in memory. May be moved.
struct LoadedLayer {
  LayerTensors layer;  // points into `tensors`, or into the TensorMap if that has the data

  std::list<NamedTensor> tensors;
  std::vector<std::vector<std::byte>> storage;
};
// A vector of layers must not copy them: the copies would point into the originals.
static_assert(std::is_nothrow_move_constructible_v<LoadedLayer>);

// Reads the tensors of one layer, each once. `layer` points into `tensors`, which must outlive the result.
// Errors as TensorReader::Read.
absl::StatusOr<LoadedLayer> LoadLayer(const LayerTensors& layer, const TensorMap& tensors);

}  // namespace attention::server
