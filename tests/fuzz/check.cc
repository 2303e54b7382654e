#include "tests/fuzz/check.h"

#include <algorithm>
#include <cstdlib>
#include <iterator>

namespace attention::fuzz {
namespace {

void Require(bool condition) {
  if (!condition) std::abort();
}

volatile unsigned sum_of_bytes;

}  // namespace

void CheckTensors(const server::TensorMap& map) {
  for (const server::NamedTensor& tensor : map.tensors) {
    Require(server::ByteCount(tensor.shape, tensor.dtype) == static_cast<int64_t>(tensor.data.size()));
    Require(map.Find(tensor.name) == &tensor);
    unsigned sum = 0;
    for (const std::byte byte : tensor.data) sum += std::to_integer<unsigned>(byte);
    sum_of_bytes = sum;
  }
  const auto not_below = [](const auto& a, const auto& b) { return a.name >= b.name; };
  Require(std::adjacent_find(map.tensors.begin(), map.tensors.end(), not_below) == map.tensors.end());
}

void CheckArrival(server::CheckpointFormat format, absl::Span<const std::byte> file) {
  const auto recognised = server::RecogniseFormat(file.first(std::min(file.size(), server::kFormatBytes)), file.size());
  const bool is_good = ParseCheckpoint(format, file).ok();
  for (const size_t size : {size_t{0}, file.size() / 2, file.size()}) {
    const auto there = HeaderIsThere(format, file.first(size), file.size());
    if (is_good && recognised.ok() && *recognised == format) {
      Require(there.ok() && (*there || size < file.size()));
    }
  }
}

}  // namespace attention::fuzz
