#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "server/checkpoint/formats/tensor_map.h"
#include "server/checkpoint/layouts/layers.h"

namespace attention::server {

// The name of a tensor, or a key of the metadata, with "/" for each ".", so that both separators are the same. The
// length does not change.
std::string WithSlashes(absl::string_view name);

// The names of tensors that belong together, below the PATH of a layer and with slashes.
struct PartNames {
  absl::Span<const absl::string_view> names;
  absl::string_view optional_suffix = {};  // each name may end in this
};

// The tensors below one PATH that have such names. Points into the TensorMap.
class LayerParts {
 public:
  LayerParts(std::string path, absl::Span<const absl::string_view> names)
      : path_(std::move(path)), names_(names), tensors_(names.size()) {}

  // With slashes; empty or ends in "/".
  const std::string& path() const { return path_; }

  // The tensor of the name with that index, or null.
  const NamedTensor* operator[](size_t part) const { return tensors_[part]; }

  // All tensors, in the order of the names.
  std::vector<const NamedTensor*> Present() const;

  // INVALID_ARGUMENT if two tensors of the file have the same name.
  const absl::Status& unique() const { return unique_; }

  // INVALID_ARGUMENT if the tensor of a name is missing; `with` tells which other tensors require it.
  absl::Status Require(size_t part, absl::string_view with) const;

  void Add(size_t part, const NamedTensor& tensor);

 private:
  std::string path_;
  absl::Span<const absl::string_view> names_;
  std::vector<const NamedTensor*> tensors_;
  absl::Status unique_;
};

// By path().
using PartsByPath = std::map<std::string, LayerParts>;

// All tensors of the file that have such names.
PartsByPath FindParts(const TensorMap& tensors, const PartNames& parts);

// One way in which files name and arrange the parameters of a layer. Layouts() is the only list of them: to add a
// layout, define it beside the others, declare it below and add it to the table in layout.cc.
struct Layout {
  absl::string_view name;
  absl::string_view required;  // the tensors that a layer must have, for error texts
  PartNames parts;
  size_t anchors = 0;                  // each of the first `anchors` parts alone identifies a layer
  absl::string_view module_path = {};  // the query, key and value are in this submodule of the layer: "self/"

  // Checks the tensors of one layer and sets its sources and their shapes. Errors as FindLayers. `num_heads` is for
  // layouts whose shapes do not show the heads: the number, or the error that tells why it is unknown.
  absl::Status (*read)(const LayerParts& parts, const absl::StatusOr<int64_t>& num_heads, LayerTensors& layer);
};

// All layouts that are recognised.
absl::Span<const Layout* const> Layouts();

extern const Layout kFlaxLayout, kTorchLayout, kBertLayout, kProjectionsLayout;

}  // namespace attention::server
