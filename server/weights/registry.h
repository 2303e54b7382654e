#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"
#include "server/weights/weight_set.h"

namespace attention::server {

// Everything that a checkpoint serves. WeightSet::checkpoint and WeightSet::version agree with the checkpoint and the
// key.
struct ServedCheckpoint {
  std::map<int64_t, std::vector<WeightSetPtr>> versions;  // the highest is the default
  std::map<std::string, int64_t, std::less<>> aliases;    // the named version may be missing
};

// A weight set with the aliases that name its version, sorted.
struct ServedWeightSet {
  WeightSetPtr weight_set;
  std::vector<std::string> aliases;
};

// The weight sets that are served. Each request holds the weight set that it found until it is finished; a weight set
// that is replaced or unloaded meanwhile lives until its last holder releases it.
//
// Thread-safe. No function blocks for longer than a look-up.
class Registry {
 public:
  // ALREADY_EXISTS, with the name and both checkpoints, if another checkpoint serves one of `names`.
  absl::Status CheckNames(absl::string_view checkpoint, absl::Span<const std::string> names) const;

  // Replaces everything that `checkpoint` serves in one step: a reader sees the old weight sets or the new ones.
  // Without weight sets, as Drop. Changes nothing on an error: ALREADY_EXISTS as CheckNames; INVALID_ARGUMENT if a
  // version has a name twice.
  absl::Status Serve(const std::string& checkpoint, ServedCheckpoint served);

  // Stops serving a checkpoint. Does nothing if it is not served.
  void Drop(absl::string_view checkpoint);

  // Memory in float32 of the weight sets of all checkpoints except `checkpoint`. Layers that several versions share
  // count once.
  int64_t BytesOfOthers(absl::string_view checkpoint) const;

  // The weight set `name`: in the version that `alias` names if it is not empty, else in `version`, else (0) in the
  // highest version of its checkpoint. REQUIRES: not both a version and an alias.
  // NOT_FOUND, with the name and the versions that have it, if there is none; also for version 0 if only lower versions
  // have it.
  absl::StatusOr<WeightSetPtr> Find(absl::string_view name, int64_t version = 0, absl::string_view alias = "") const;

  // As Find, with the aliases.
  absl::StatusOr<ServedWeightSet> Describe(absl::string_view name, int64_t version = 0,
                                           absl::string_view alias = "") const;

  // All weight sets whose names begin with `prefix`, in every version, sorted by name, then by descending version.
  std::vector<ServedWeightSet> List(absl::string_view prefix = "") const;

 private:
  struct Name {
    std::string checkpoint;
    std::map<int64_t, WeightSetPtr, std::greater<>> versions;
  };
  struct Checkpoint {
    int64_t highest = 0;
    int64_t bytes = 0;  // see BytesOfOthers
    std::map<std::string, int64_t, std::less<>> aliases;
    std::vector<std::string> names;
  };
  using Names = std::map<std::string, Name, std::less<>>;

  absl::Status CheckOwners(absl::string_view checkpoint, absl::Span<const std::string> names) const
      ABSL_SHARED_LOCKS_REQUIRED(mu_);
  Names Remove(absl::string_view checkpoint) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::StatusOr<WeightSetPtr> FindLocked(absl::string_view name, int64_t version, absl::string_view alias) const
      ABSL_SHARED_LOCKS_REQUIRED(mu_);
  ServedWeightSet WithAliases(const WeightSetPtr& weight_set) const ABSL_SHARED_LOCKS_REQUIRED(mu_);

  mutable absl::Mutex mu_;
  Names names_ ABSL_GUARDED_BY(mu_);
  std::map<std::string, Checkpoint, std::less<>> checkpoints_ ABSL_GUARDED_BY(mu_);
  int64_t bytes_ ABSL_GUARDED_BY(mu_) = 0;  // of all checkpoints
};

}  // namespace attention::server
