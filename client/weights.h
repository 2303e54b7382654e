#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace attention {

// What the calls for weight sets take and return; attention.v1.WeightService documents checkpoints, versions and
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
  int64_t num_kv_heads = 0;  // of key and value; divides num_heads
  int64_t head_dim = 0;
  int64_t value_head_dim = 0;
  int64_t out_features = 0;
  bool normalize_qk = false;  // query and key pass through LayerNorm
  int64_t bytes = 0;
  std::vector<ParameterInfo> parameters = {};  // as they stand in the file
  std::string layout = {};                     // of the file: "flax", "torch", "bert" or "projections"
  std::vector<std::string> aliases = {};       // those that name this version, sorted
};

// A version by its number or by an alias, not both. Neither: the highest.
struct VersionChoice {
  int64_t version = 0;
  std::string alias = {};
};

struct CheckpointOptions {
  int64_t num_heads = 0;  // of layers whose heads cannot be seen from their shapes; 0: as the file says
};

struct CheckpointUpload {
  std::string file;        // path of what is sent
  std::string checkpoint;  // name under which the server serves it
  CheckpointOptions options = {};

  // If not null: called on the caller's thread with the bytes that were sent and those of the whole file, first with 0,
  // after that for each MiB.
  std::function<void(int64_t sent, int64_t total)> progress = {};
};

struct LoadedCheckpoint {
  std::string checkpoint;
  int64_t version = 0;
  std::string sha256 = {};  // of the file, in lower case hexadecimal digits
  std::string format = {};  // "safetensors", "msgpack" or "npz"
  bool unchanged = false;   // it was the highest version already
  std::vector<WeightSetInfo> weight_sets = {};
  std::vector<std::string> unused_tensors = {};  // those that belong to no attention layer
};

struct AliasChange {
  std::string checkpoint;
  std::string alias;
  int64_t version = 0;  // what it is to name; 0: removes it

  // What it must name now, 0: that it is not there; if it does not, the call is ABORTED. Not set: whatever it names.
  std::optional<int64_t> expected_version = {};
};

}  // namespace attention
