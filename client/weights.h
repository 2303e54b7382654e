#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace attention {

// Arguments and results of the calls for weight sets. attention.v1.WeightService documents checkpoints, versions and
// aliases.

struct ParameterInfo {
  std::string name;
  std::string dtype;  // "float32", …
  std::vector<int64_t> shape;
};

struct WeightSetInfo {
  std::string name;
  int64_t version = 0;
  std::string checkpoint;
  int64_t in_features = 0;
  int64_t in_k_features = 0;
  int64_t in_v_features = 0;
  int64_t num_heads = 0;
  int64_t num_kv_heads = 0;  // heads of key and value; divides num_heads
  int64_t head_dim = 0;
  int64_t value_head_dim = 0;
  int64_t out_features = 0;
  bool normalize_qk = false;                   // LayerNorm is applied to query and key
  int64_t bytes = 0;                           // memory used on the server
  std::vector<ParameterInfo> parameters = {};  // as in the file, sorted by name
  std::string layout = {};                     // of the file: "flax", "torch", "bert" or "projections"
  std::vector<std::string> aliases = {};       // aliases of this version, sorted
};

// A version, given by its number or by an alias, not both. Default: the highest version.
struct VersionChoice {
  int64_t version = 0;
  std::string alias = {};
};

struct CheckpointOptions {
  // Number of heads of the layers whose shapes do not show it. 0: as the file's metadata says.
  int64_t num_heads = 0;

  // Accept a file that lacks weight sets of the version before. Otherwise such a file is FAILED_PRECONDITION, because
  // requests for these weight sets would fail.
  bool replace = false;
};

struct CheckpointUpload {
  std::string file;        // path of the file to send
  std::string checkpoint;  // name under which the server serves it
  CheckpointOptions options = {};

  // Called on the caller's thread with the number of bytes sent and the file's size, before each MiB and at the end.
  // May be empty.
  std::function<void(int64_t sent, int64_t total)> progress = {};
};

struct LoadedCheckpoint {
  std::string checkpoint;
  int64_t version = 0;
  std::string sha256 = {};                       // of the file, in lower-case hexadecimal digits
  std::string format = {};                       // "safetensors", "msgpack" or "npz"
  bool unchanged = false;                        // the same content was the highest version already
  std::vector<WeightSetInfo> weight_sets = {};   // sorted by name
  std::vector<std::string> unused_tensors = {};  // tensors that belong to no attention layer, sorted
  std::vector<int64_t> dropped_versions = {};    // versions that the server no longer keeps, sorted

  // Weight sets of the version before that this version does not have, sorted.
  std::vector<std::string> removed_weight_sets = {};
};

struct DeletedCheckpoint {
  std::vector<int64_t> versions = {};  // sorted

  // The operator's files that were removed, and those that could not be, relative to the server's weights folder. The
  // server ignores the latter as long as they do not change.
  std::vector<std::string> removed_files = {};
  std::vector<std::string> remaining_files = {};
};

struct AliasChange {
  std::string checkpoint;
  std::string alias;
  int64_t version = 0;  // the version that the alias names from now on; 0: removes the alias

  // The version that the alias must name at present, or 0 if it must not exist. Otherwise the call fails with ABORTED.
  // Default: any.
  std::optional<int64_t> expected_version = {};
};

}  // namespace attention
