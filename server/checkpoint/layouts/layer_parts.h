#pragma once

#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "server/checkpoint/formats/tensor_map.h"

namespace attention::server {

// The name of a tensor, or a key of the metadata, with "/" between its components, where a file may have ".". As long
// as it was.
std::string WithSlashes(absl::string_view name);

// The names, below a layer's PATH, of the tensors that belong together, in their form with slashes.
struct PartNames {
  absl::Span<const absl::string_view> names;
  absl::string_view optional_suffix = {};  // may stand behind each
};

// The tensors below one PATH that carry such names. Points into the TensorMap.
class LayerParts {
 public:
  LayerParts(std::string path, absl::Span<const absl::string_view> names)
      : path_(std::move(path)), names_(names), tensors_(names.size()) {}

  // With slashes, one also at its end unless it is empty.
  const std::string& path() const { return path_; }

  // By the index of the name; null if there is none.
  const NamedTensor* operator[](size_t part) const { return tensors_[part]; }

  // Those that there are.
  std::vector<const NamedTensor*> Present() const;

  // OK, unless two tensors of the file have the name of one part.
  const absl::Status& unique() const { return unique_; }

  // INVALID_ARGUMENT unless the part is there; `with` says what wants it.
  absl::Status Require(size_t part, absl::string_view with) const;

  void Add(size_t part, const NamedTensor& tensor);

 private:
  std::string path_;
  absl::Span<const absl::string_view> names_;
  std::vector<const NamedTensor*> tensors_;
  absl::Status unique_;
};

// By path(), ordered.
using PartsByPath = std::map<std::string, LayerParts>;

// Everything in the file that has such a name.
PartsByPath FindParts(const TensorMap& tensors, const PartNames& parts);

}  // namespace attention::server
