#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "server/weights/layers.h"
#include "server/weights/registry.h"

namespace attention::server {

// The folder with the checkpoints that can be served: DIR/ocr.safetensors and DIR/shop/ocr.safetensors are the
// checkpoints "ocr" and "shop/ocr".
//
// Never reads outside of the folder: a symbolic link counts as missing unless it ends inside. Entries whose name begins
// with a dot are never looked at. Files are to be replaced by renaming (see MappedFile).
//
// Thread-safe; loads wait for each other, calls that use weight sets wait for nothing.
class WeightsFolder {
 public:
  struct Limits {
    // Most bytes that the weight sets may take, in float32, all of them together. Flag --max-weight-bytes. What is
    // being replaced does not count.
    int64_t max_weight_bytes = std::numeric_limits<int64_t>::max();
  };

  struct Loaded {
    std::vector<WeightSetPtr> weight_sets;    // sorted by name
    std::vector<std::string> unused_tensors;  // sorted; those that belong to no layer
  };

  struct Counts {
    int loaded = 0;  // checkpoints
    int broken = 0;
  };

  // An empty `dir` is a folder with nothing in it. `registry` must outlive this.
  WeightsFolder(std::string dir, const Limits& limits, Registry* registry);

  // Loads every *.safetensors below the folder, in the order of their names. One that cannot be loaded is logged and
  // counted. Links to folders are not followed. NOT_FOUND if the folder itself cannot be read.
  absl::StatusOr<Counts> LoadAll();

  // Loads one checkpoint, or loads it again, and publishes its weight sets; a failure changes nothing.
  // INVALID_ARGUMENT for a bad name, a damaged file or one without an attention layer; NOT_FOUND if there is no such
  // file; ALREADY_EXISTS if another checkpoint has a weight set of the same name; RESOURCE_EXHAUSTED, before anything
  // is read, if the limit would be passed. No message holds the path of the folder.
  absl::StatusOr<Loaded> LoadCheckpoint(absl::string_view checkpoint);

 private:
  absl::StatusOr<Loaded> Load(const std::string& checkpoint);
  absl::Status CheckLimit(const std::string& checkpoint, const CheckpointLayers& layers) const;

  const std::string dir_;
  const Limits limits_;
  Registry* const registry_;

  absl::Mutex load_mu_;  // guards no field: one load at a time
};

}  // namespace attention::server
