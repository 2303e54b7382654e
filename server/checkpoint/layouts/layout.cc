#include "server/checkpoint/layouts/layout.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "server/checkpoint/field_error.h"

namespace attention::server {
namespace {

constexpr const Layout* kLayouts[] = {&kFlaxLayout, &kTorchLayout, &kBertLayout, &kProjectionsLayout};

// The state of the optimizer contains arrays with the names of the parameters (optax).
constexpr absl::string_view kOptimizer = "opt_state/";

struct PartOfLayer {
  absl::string_view path;
  size_t part = 0;
};

// Nothing if no part has this name. REQUIRES: `name` has slashes.
std::optional<PartOfLayer> FindPart(absl::string_view name, absl::Span<const absl::string_view> names) {
  for (size_t i = 0; i < names.size(); ++i) {
    absl::string_view path = name;
    if (absl::ConsumeSuffix(&path, names[i]) && (path.empty() || absl::EndsWith(path, "/"))) {
      return PartOfLayer{path, i};
    }
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
  // With the separator that the other tensors of the file have.
  const std::vector<const NamedTensor*> present = Present();
  const bool dots = !present.empty() && !absl::StrContains(present[0]->name, '/');
  const std::string name = absl::StrCat(path_, names_[part]);
  return absl::InvalidArgumentError(absl::StrCat(
      EscapeForMessage(dots ? absl::StrReplaceAll(name, {{"/", "."}}) : name), ": missing, required with ", with));
}

void LayerParts::Add(size_t part, const NamedTensor& tensor) {
  if (tensors_[part] != nullptr && unique_.ok()) {
    unique_ = FieldError(EscapeForMessage(absl::StrCat(path_, names_[part])), "one tensor",
                         absl::StrCat(EscapeForMessage(tensors_[part]->name), " and ", EscapeForMessage(tensor.name)));
  }
  tensors_[part] = &tensor;
}

PartsByPath FindParts(const TensorMap& tensors, const PartNames& parts) {
  PartsByPath found;
  for (const NamedTensor& tensor : tensors.tensors) {
    const std::string name = WithSlashes(tensor.name);
    if (absl::StartsWith(name, kOptimizer)) continue;
    std::optional<PartOfLayer> part = FindPart(name, parts.names);
    absl::string_view start = name;
    if (!part && !parts.optional_suffix.empty() && absl::ConsumeSuffix(&start, parts.optional_suffix)) {
      part = FindPart(start, parts.names);
    }
    if (!part) continue;
    const std::string path(part->path);
    found.try_emplace(path, path, parts.names).first->second.Add(part->part, tensor);
  }
  return found;
}

absl::Span<const Layout* const> Layouts() { return kLayouts; }

}  // namespace attention::server
