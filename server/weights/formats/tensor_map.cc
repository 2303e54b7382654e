#include "server/weights/formats/tensor_map.h"

#include <algorithm>

namespace attention::server {

const NamedTensor* TensorMap::Find(absl::string_view name) const {
  const auto found =
      std::lower_bound(tensors.begin(), tensors.end(), name,
                       [](const NamedTensor& tensor, absl::string_view name) { return tensor.name < name; });
  return found != tensors.end() && found->name == name ? &*found : nullptr;
}

}  // namespace attention::server
