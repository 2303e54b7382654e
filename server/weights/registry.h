#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "server/weights/weight_set.h"

namespace attention::server {

using WeightSetPtr = std::shared_ptr<const WeightSet>;

// The weight sets that are served, by name. Whoever finds one holds it as long as its work takes: what is replaced or
// unloaded meanwhile lives on until the last holder lets go.
//
// Thread-safe. Nothing in here blocks for longer than a look-up takes.
class Registry {
 public:
  // Serves `weight_sets` as all that `checkpoint` has, in one step: each gets the next version of its name and the
  // checkpoint's name, and replaces what was there; other sets of the checkpoint are dropped. Returns what is served
  // now, sorted by name. ALREADY_EXISTS, with nothing changed, if a name is served from another checkpoint;
  // INVALID_ARGUMENT if one stands twice.
  absl::StatusOr<std::vector<WeightSetPtr>> Publish(const std::string& checkpoint, std::vector<WeightSet> weight_sets);

  // The set that is served under `name` now. NOT_FOUND, with the name, if there is none, or if `version` is neither 0
  // nor its version.
  absl::StatusOr<WeightSetPtr> Find(absl::string_view name, int64_t version = 0) const;

  // All that are served, sorted by name.
  std::vector<WeightSetPtr> List() const;

  // Stops serving `name`; returns the version that was served. NOT_FOUND if there is none. A later load goes on
  // counting.
  absl::StatusOr<int64_t> Unload(absl::string_view name);

 private:
  using Served = std::map<std::string, WeightSetPtr, std::less<>>;

  mutable absl::Mutex mu_;
  Served served_ ABSL_GUARDED_BY(mu_);
  std::map<std::string, int64_t> last_versions_ ABSL_GUARDED_BY(mu_);  // of every name ever served
};

}  // namespace attention::server
