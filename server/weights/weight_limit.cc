#include "server/weights/weight_limit.h"

#include <set>

#include "absl/strings/str_cat.h"
#include "server/checkpoint/field_error.h"
#include "server/checkpoint/layouts/layers.h"

namespace attention::server {
namespace {

// Sums weight sets, each layer once.
class Sum {
 public:
  void Add(const WeightSet& weight_set) {
    if (counted_.insert(weight_set.layer.get()).second) bytes_ += Float32Bytes(weight_set.parameters);
  }
  int64_t bytes() const { return bytes_; }

 private:
  std::set<const Layer*> counted_;
  int64_t bytes_ = 0;
};

}  // namespace

absl::Status CheckWeightBytes(const Registry& registry, const CatalogEntry& kept, int64_t fresh_bytes,
                              int64_t max_weight_bytes) {
  Sum others;
  for (const ServedWeightSet& served : registry.List()) {
    if (served.weight_set->checkpoint != kept.name) others.Add(*served.weight_set);
  }
  for (const auto& [number, version] : kept.loaded) {
    for (const WeightSetPtr& weight_set : version.weight_sets) others.Add(*weight_set);
  }
  if (fresh_bytes <= max_weight_bytes - others.bytes()) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat("checkpoint ", EscapeForMessage(kept.name), ": takes ", fresh_bytes,
                                                   " bytes beside the ", others.bytes(),
                                                   " that others take, but --max-weight-bytes is ", max_weight_bytes));
}

}  // namespace attention::server
