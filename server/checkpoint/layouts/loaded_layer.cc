#include "server/checkpoint/layouts/loaded_layer.h"

#include <map>
#include <utility>

#include "absl/status/status.h"

namespace attention::server {
namespace {

// Everything in a layer that points to a tensor.
std::vector<const NamedTensor**> Pointers(LayerTensors& layer) {
  std::vector<const NamedTensor**> pointers;
  for (ProjectionSources* projection : {&layer.query, &layer.key, &layer.value, &layer.out}) {
    pointers.push_back(&projection->kernel.tensor);
    pointers.push_back(&projection->bias.tensor);
  }
  pointers.push_back(&layer.query_ln.tensor);
  pointers.push_back(&layer.key_ln.tensor);
  if (layer.self_test) {
    SelfTestTensors& test = *layer.self_test;
    pointers.insert(pointers.end(), {&test.inputs_q, &test.inputs_k, &test.inputs_v, &test.mask, &test.output});
  }
  return pointers;
}

}  // namespace

absl::StatusOr<LoadedLayer> LoadLayer(const LayerTensors& layer, const TensorMap& tensors) {
  LoadedLayer loaded{layer, {}, {}};
  if (tensors.reader == nullptr) return loaded;
  std::map<const NamedTensor*, const NamedTensor*> read;
  for (const NamedTensor** pointer : Pointers(loaded.layer)) {
    // Chunked arrays have their data already.
    if (*pointer == nullptr || !(*pointer)->data.empty()) continue;
    const auto [known, is_new] = read.try_emplace(*pointer, nullptr);
    if (is_new) {
      absl::StatusOr<std::vector<std::byte>> data = tensors.reader->Read(**pointer);
      if (!data.ok()) return data.status();
      loaded.storage.push_back(*std::move(data));
      loaded.tensors.push_back(**pointer);
      loaded.tensors.back().data = loaded.storage.back();
      known->second = &loaded.tensors.back();
    }
    *pointer = known->second;
  }
  return loaded;
}

}  // namespace attention::server
