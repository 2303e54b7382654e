#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "server/checkpoint/formats/format.h"
#include "server/checkpoint/formats/tensor_map.h"
#include "server/checkpoint/layouts/layers.h"
#include "server/weights/self_test.h"
#include "server/weights/weight_set.h"

namespace attention::server {

// A checkpoint file of which the header was read: what it holds is known, and fits together. Points into the file.
struct ParsedCheckpoint {
  CheckpointFormat format = CheckpointFormat::kSafetensors;
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

// By number.
using LoadedVersions = std::map<int64_t, LoadedVersion>;

// What a file's layers depend on besides its bytes.
struct ParseOptions {
  std::string checkpoint;
  int64_t num_heads = 0;

  // Most memory of all weight sets. An npz file that inflates to much more is given up on the way.
  int64_t max_weight_bytes = 0;
};

// Reads the header of a file, and nothing that it need not. Errors as ParseCheckpoint and FindLayers, with the
// checkpoint.
absl::StatusOr<ParsedCheckpoint> ReadHeader(absl::Span<const std::byte> file, const ParseOptions& options);

// Where a version stands.
struct VersionName {
  std::string checkpoint;
  int64_t version = 0;
};

// Reads, packs and tries every layer. Errors, with the checkpoint, as Layer::Pack and RunSelfTest.
absl::StatusOr<LoadedVersion> PackLayers(const ParsedCheckpoint& parsed, const VersionName& name,
                                         const ComputeSelfTest& compute);

// The same layers under another number. They share their memory.
LoadedVersion WithVersion(const LoadedVersion& loaded, int64_t version);

}  // namespace attention::server
