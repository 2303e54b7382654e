#include "server/engine/layer.h"

#include <utility>
#include <vector>

#include "server/engine/kernels/row_kernels.h"
#include "server/engine/onednn/onednn.h"
#include "server/engine/onednn/warm_up.h"
#include "server/engine/projection/packed_kernel.h"
#include "server/runtime/catch_exceptions.h"

namespace attention::server {
namespace {

bool IsFinite(const LayerParameters& p) {
  for (const std::vector<float>* numbers :
       {&p.query_kernel, &p.query_bias, &p.key_kernel, &p.key_bias, &p.value_kernel, &p.value_bias, &p.out_kernel,
        &p.out_bias, &p.query_ln_scale, &p.key_ln_scale}) {
    if (!AllFinite(numbers->data(), static_cast<int64_t>(numbers->size()), 1)) return false;
  }
  return true;
}

}  // namespace

absl::StatusOr<std::shared_ptr<const Layer>> Layer::Pack(const LayerParameters& parameters) {
  std::shared_ptr<const Layer> layer;
  const absl::Status status = CatchExceptions("packing a layer", [&] {
    Onednn onednn;
    layer.reset(new Layer(parameters, std::make_unique<const PackedKernels>(onednn, parameters)));
    WarmUp(parameters.shape);
    return absl::OkStatus();
  });
  if (!status.ok()) return status;
  return layer;
}

Layer::Layer(const LayerParameters& parameters, std::unique_ptr<const PackedKernels> kernels)
    : shape_(parameters.shape), is_finite_(IsFinite(parameters)), kernels_(std::move(kernels)) {}

Layer::~Layer() = default;

int64_t Layer::bytes() const { return kernels_->bytes(); }

}  // namespace attention::server
