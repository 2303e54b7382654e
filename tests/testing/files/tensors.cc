#include "tests/testing/files/tensors.h"

#include <utility>
#include <vector>

namespace attention::test {

absl::Status ReadAllTensors(server::TensorMap& map) {
  for (server::NamedTensor& tensor : map.tensors) {
    if (map.reader == nullptr || !tensor.data.empty() || !tensor.usable.ok()) continue;
    absl::StatusOr<std::vector<std::byte>> data = map.reader->Read(tensor);
    if (!data.ok()) return data.status();
    tensor.data = map.storage.emplace_back(*std::move(data));
  }
  map.reader.reset();
  return absl::OkStatus();
}

absl::StatusOr<server::TensorMap> ParseCheckpoint(absl::Span<const std::byte> file) {
  const server::MemorySource source(file);
  const auto format = server::RecogniseFormat(source);
  if (!format.ok()) return format.status();
  absl::StatusOr<server::TensorMap> map = (*format)->describe(source, server::kUnlimitedBytes);
  if (!map.ok()) return map;
  if (absl::Status status = ReadAllTensors(*map); !status.ok()) return status;
  return map;
}

}  // namespace attention::test
