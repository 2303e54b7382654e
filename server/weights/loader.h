#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/checkpoint/byte_source.h"
#include "server/checkpoint/formats/format.h"
#include "server/checkpoint/formats/tensor_map.h"
#include "server/checkpoint/layouts/layers.h"
#include "server/weights/registry.h"
#include "server/weights/weight_set.h"

namespace attention::server {

// Runs the self-test that a checkpoint contains for one of its layers. The server implements it with the rules and
// limits of requests. Called by one thread at a time.
class SelfTestRunner {
 public:
  virtual ~SelfTestRunner() = default;

  // Computes the layer with the inputs of the test and compares the output: OK if |actual − expected| ≤ tolerance ·
  // max(1, |expected|) for each number. FAILED_PRECONDITION, with the worst difference and its position, if a number
  // differs more; INVALID_ARGUMENT for inputs that no request could have or an output of another shape; else the error
  // of the computation.
  virtual absl::Status Run(const SelfTestTensors& test, const Layer& layer) = 0;
};

// A checkpoint file whose tensors are described and checked but not read. The file must outlive this.
struct ParsedCheckpoint {
  const CheckpointFormat* format = nullptr;
  TensorMap tensors;
  CheckpointLayers layers;

  std::vector<std::string> names() const;  // of the weight sets, sorted

  // Memory of the weight sets in float32.
  int64_t bytes() const;
};

// One version of a checkpoint in memory.
struct LoadedVersion {
  std::vector<WeightSetPtr> weight_sets;  // sorted by name
  std::vector<std::string> unused_tensors;
};

// By version number.
using LoadedVersions = std::map<int64_t, LoadedVersion>;

// The same layers under another version number. They share their memory.
LoadedVersion WithVersion(const LoadedVersion& loaded, int64_t version);

// Turns the bytes of a checkpoint into layers: Parse, CheckFits, Pack. Error messages start with "checkpoint NAME: ".
// Parse and CheckFits are thread-safe; Pack runs self-tests, so one thread at a time may call it.
class Loader {
 public:
  struct Options {
    // Limit of the memory of all weight sets in float32. Flag --max-weight-bytes.
    int64_t max_weight_bytes = 0;

    // nullptr: self-tests are skipped.
    SelfTestRunner* self_test_runner = nullptr;
  };

  // `registry` and the runner must outlive this.
  Loader(const Options& options, const Registry* registry) : options_(options), registry_(registry) {}

  // Reads the descriptions of the tensors and finds the layers. `num_heads` as LoadOptions. Errors as
  // CheckpointFormat::describe and FindLayers.
  absl::StatusOr<ParsedCheckpoint> Parse(const std::string& checkpoint, const ByteSource& file,
                                         int64_t num_heads) const;

  // ALREADY_EXISTS if another checkpoint serves one of the weight sets. RESOURCE_EXHAUSTED if the new weight sets
  // exceed max_weight_bytes together with those of other checkpoints and `kept`, the versions of this checkpoint that
  // remain. Layers that several versions share count once. The tensors of each self-test, which are in memory only
  // while it runs, must not exceed max_weight_bytes either.
  absl::Status CheckFits(const std::string& checkpoint, const ParsedCheckpoint& parsed,
                         const LoadedVersions& kept = {}) const;

  // Reads and packs every layer and runs its self-test. Holds the tensors of one layer at a time in memory, as in the
  // file and in float32. Errors as LoadLayer, Layer::Pack and SelfTestRunner::Run.
  absl::StatusOr<LoadedVersion> Pack(const std::string& checkpoint, int64_t version,
                                     const ParsedCheckpoint& parsed) const;

 private:
  absl::StatusOr<std::shared_ptr<const Layer>> PackLayer(const LayerTensors& layer, const TensorMap& tensors) const;

  const Options options_;
  const Registry* const registry_;
};

}  // namespace attention::server
