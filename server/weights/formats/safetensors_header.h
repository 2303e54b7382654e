#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/engine/tensor.h"

namespace attention::server {

// One entry of a safetensors header, as it stands there: `begin` and `end` count from the start of the data section.
struct SafetensorsEntry {
  std::string name;
  DType dtype = DType::kFloat32;
  Shape shape;
  uint64_t begin = 0;
  uint64_t end = 0;
};

struct SafetensorsHeader {
  std::vector<SafetensorsEntry> entries;  // sorted by name, each name once
  std::map<std::string, std::string> metadata;
};

// Reads the JSON text of a header. INVALID_ARGUMENT for all that ParseSafetensors names, but for what concerns the
// data.
absl::StatusOr<SafetensorsHeader> ParseSafetensorsHeader(absl::string_view text);

// "F32", …: the format's name of a type.
absl::string_view SafetensorsDTypeName(DType dtype);

}  // namespace attention::server
