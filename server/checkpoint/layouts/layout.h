#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/checkpoint/layouts/layer_parts.h"
#include "server/checkpoint/layouts/layers.h"

namespace attention::server {

// One way in which files name and lay out the parameters of a layer.
struct Layout {
  absl::string_view name;
  PartNames parts;
  size_t anchors = 0;  // the first so many parts make a layer, each by itself

  // Checks the tensors of one layer and sets its sources with their shapes. Errors as FindLayers. `num_heads` is for a
  // layout that does not show the heads, or says why their number is not known.
  absl::Status (*read)(const LayerParts& parts, const absl::StatusOr<int64_t>& num_heads, LayerTensors& layer);
};

extern const Layout kFlaxLayout, kTorchLayout, kBertLayout, kProjectionsLayout;

}  // namespace attention::server
