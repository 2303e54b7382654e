#include "server/engine/layer.h"

#include <utility>

#include "server/engine/onednn/onednn.h"
#include "server/engine/onednn/warm_up.h"
#include "server/engine/projection/packed_kernel.h"
#include "server/runtime/catch_exceptions.h"

namespace attention::server {

absl::StatusOr<std::shared_ptr<const Layer>> Layer::Pack(const LayerParameters& parameters) {
  std::shared_ptr<const Layer> layer;
  const absl::Status status = CatchExceptions("packing a layer", [&] {
    Onednn onednn;
    layer.reset(new Layer(parameters.shape, std::make_unique<const PackedKernels>(onednn, parameters)));
    WarmUp(parameters.shape);
    return absl::OkStatus();
  });
  if (!status.ok()) return status;
  return layer;
}

Layer::Layer(const LayerShape& shape, std::unique_ptr<const PackedKernels> kernels)
    : shape_(shape), kernels_(std::move(kernels)) {}

Layer::~Layer() = default;

int64_t Layer::bytes() const { return kernels_->bytes(); }

}  // namespace attention::server
