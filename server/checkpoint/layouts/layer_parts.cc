#include "server/checkpoint/layouts/layer_parts.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "server/checkpoint/field_error.h"

namespace attention::server {
namespace {

// The moments that optax keeps of every parameter, under the parameter's own name.
constexpr absl::string_view kOptimizer = "opt_state/";

// Where a tensor belongs.
struct Place {
  absl::string_view path;
  size_t part = 0;
};

// Nothing if the name, which has slashes, is that of no part.
std::optional<Place> FindPlace(absl::string_view name, absl::Span<const absl::string_view> names) {
  for (size_t i = 0; i < names.size(); ++i) {
    absl::string_view path = name;
    if (absl::ConsumeSuffix(&path, names[i]) && (path.empty() || absl::EndsWith(path, "/"))) return Place{path, i};
  }
  return std::nullopt;
}

}  // namespace

std::string WithSlashes(absl::string_view name) { return absl::StrReplaceAll(name, {{".", "/"}}); }

std::vector<const NamedTensor*> LayerParts::Present() const {
  std::vector<const NamedTensor*> present;
  std::copy_if(tensors_.begin(), tensors_.end(), std::back_inserter(present),
               [](const auto* t) { return t != nullptr; });
  return present;
}

absl::Status LayerParts::Require(size_t part, absl::string_view with) const {
  if (tensors_[part] != nullptr) return absl::OkStatus();
  // Spelled as the file spells the others.
  const std::vector<const NamedTensor*> present = Present();
  const bool dots = !present.empty() && !absl::StrContains(present[0]->name, '/');
  const std::string name = absl::StrCat(path_, names_[part]);
  return absl::InvalidArgumentError(absl::StrCat(
      EscapeForMessage(dots ? absl::StrReplaceAll(name, {{"/", "."}}) : name), ": missing, wanted with ", with));
}

void LayerParts::Add(size_t part, const NamedTensor& tensor) {
  if (tensors_[part] != nullptr && unique_.ok()) {
    unique_ = absl::InvalidArgumentError(
        absl::StrCat(EscapeForMessage(tensors_[part]->name), " and ", EscapeForMessage(tensor.name), ": are both ",
                     EscapeForMessage(absl::StrCat(path_, names_[part])), ", wanted one"));
  }
  tensors_[part] = &tensor;
}

PartsByPath FindParts(const TensorMap& tensors, const PartNames& parts) {
  PartsByPath found;
  for (const NamedTensor& tensor : tensors.tensors) {
    const std::string name = WithSlashes(tensor.name);
    if (absl::StartsWith(name, kOptimizer)) continue;
    std::optional<Place> place = FindPlace(name, parts.names);
    absl::string_view start = name;
    if (!place && !parts.optional_suffix.empty() && absl::ConsumeSuffix(&start, parts.optional_suffix)) {
      place = FindPlace(start, parts.names);
    }
    if (!place) continue;
    const std::string path(place->path);
    found.try_emplace(path, path, parts.names).first->second.Add(place->part, tensor);
  }
  return found;
}

}  // namespace attention::server
