#include "server/weights/formats/tensor_map.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "server/weights/formats/echo.h"

namespace attention::server {

const NamedTensor* TensorMap::Find(absl::string_view name) const {
  const auto found =
      std::lower_bound(tensors.begin(), tensors.end(), name,
                       [](const NamedTensor& tensor, absl::string_view name) { return tensor.name < name; });
  return found != tensors.end() && found->name == name ? &*found : nullptr;
}

absl::Status SortByName(std::vector<NamedTensor>& tensors) {
  std::sort(tensors.begin(), tensors.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
  const auto twice =
      std::adjacent_find(tensors.begin(), tensors.end(), [](const auto& a, const auto& b) { return a.name == b.name; });
  if (twice == tensors.end()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("duplicate tensor ", Echo(twice->name)));
}

}  // namespace attention::server
