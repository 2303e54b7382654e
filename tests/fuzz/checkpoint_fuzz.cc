// Runs every parser of checkpoint files on an arbitrary file and checks what their callers rely on.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <utility>

#include "server/checkpoint/formats/format.h"
#include "server/checkpoint/formats/npy.h"

namespace attention::server {
namespace {

void Require(bool condition) {
  if (!condition) std::abort();
}

// Not optimised away, so that the sanitizer checks every read.
volatile unsigned sum_of_bytes;

// Every tensor has as many readable bytes as its shape requires; the names are sorted and unique.
void CheckTensors(const TensorMap& map) {
  for (const NamedTensor& tensor : map.tensors) {
    Require(tensor.data.empty() || tensor.usable.ok());
    if (tensor.usable.ok()) Require(ByteCount(tensor.shape, tensor.dtype) == static_cast<int64_t>(tensor.data.size()));
    Require(map.Find(tensor.name) == &tensor);
    unsigned sum = 0;
    for (const std::byte byte : tensor.data) sum += std::to_integer<unsigned>(byte);
    sum_of_bytes = sum;
  }
  const auto not_below = [](const auto& a, const auto& b) { return a.name >= b.name; };
  Require(std::adjacent_find(map.tensors.begin(), map.tensors.end(), not_below) == map.tensors.end());
}

// A file that can be described is never refused while it arrives.
void CheckArrival(const CheckpointFormat& format, absl::Span<const std::byte> file, bool is_valid) {
  const auto end = format.header_end(file.first(std::min(file.size(), kFormatBytes)), file.size());
  if (is_valid) Require(end.ok() && *end <= file.size());
  if (format.check_start == nullptr) return;
  for (const size_t size : {size_t{0}, file.size() / 2, file.size()}) {
    const absl::Status status = format.check_start(file.first(size));
    if (is_valid) Require(status.ok());
  }
}

// False if the data of a tensor are damaged.
bool ReadTensors(TensorMap& map) {
  for (NamedTensor& tensor : map.tensors) {
    if (!tensor.data.empty() || !tensor.usable.ok()) continue;
    auto data = map.reader->Read(tensor);
    if (!data.ok()) return false;
    tensor.data = map.storage.emplace_back(*std::move(data));
  }
  return true;
}

void CheckFormat(const CheckpointFormat& format, absl::Span<const std::byte> file) {
  const MemorySource source(file);
  auto map = format.describe(source, kUnlimitedBytes);
  if (map.ok() && ReadTensors(*map)) CheckTensors(*map);
  const auto recognised = RecogniseFormat(file, file.size());
  CheckArrival(format, file, map.ok() && recognised.ok() && *recognised == &format);
}

}  // namespace
}  // namespace attention::server

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace attention::server;  // NOLINT(google-build-using-namespace)
  const absl::Span<const std::byte> file(reinterpret_cast<const std::byte*>(data), size);
  for (const CheckpointFormat& format : CheckpointFormats()) CheckFormat(format, file);
  // Directly as well: the checksums of a zip file hide its arrays from the fuzzer.
  if (const auto map = ParseNpy(file); map.ok()) CheckTensors(*map);
  return 0;
}
