#include <cmath>
#include <cstdint>
#include <filesystem>
#include <map>
#include <random>
#include <string>
#include <system_error>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/cli/commands.h"
#include "client/cli/tensor_files.h"

namespace attention::cli {
namespace {

using Tensors = std::map<std::string, Tensor>;

Tensor MakeFloat32(const std::vector<int64_t>& shape, const std::vector<float>& values) {
  return {DataType::kFloat32, shape,
          std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float))};
}

Tensor Filled(const std::vector<int64_t>& shape, float value) {
  int64_t count = 1;
  for (int64_t size : shape) count *= size;
  return MakeFloat32(shape, std::vector<float>(count, value));
}

void AddOnes(Tensors& tensors) {
  for (const char* name : {"query", "key", "value"}) {
    tensors[absl::StrCat("ones/", name, "/kernel")] = Filled({3, 1, 4}, 1);
    tensors[absl::StrCat("ones/", name, "/bias")] = Filled({1, 4}, 0);
  }
  tensors["ones/out/kernel"] = MakeFloat32({1, 4, 4}, {1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1});
  tensors["ones/out/bias"] = Filled({4}, 0);
}

struct LayerSize {
  const char* name;
  int64_t features;
  int64_t num_heads;
};

void AddRandom(const LayerSize& layer, Tensors& tensors) {
  std::mt19937_64 random(1);
  std::normal_distribution<float> normal(0, 1 / std::sqrt(static_cast<float>(layer.features)));
  const int64_t head_dim = layer.features / layer.num_heads;
  for (const char* name : {"query", "key", "value", "out"}) {
    const bool is_out = std::string(name) == "out";
    std::vector<float> values(layer.features * layer.features);
    for (float& value : values) value = normal(random);
    const std::vector<int64_t> in = {layer.features, layer.num_heads, head_dim};
    const std::vector<int64_t> out = {layer.num_heads, head_dim, layer.features};
    const std::vector<int64_t> bias = {layer.num_heads, head_dim};
    tensors[absl::StrCat(layer.name, "/", name, "/kernel")] = MakeFloat32(is_out ? out : in, values);
    tensors[absl::StrCat(layer.name, "/", name, "/bias")] = Filled(is_out ? std::vector{layer.features} : bias, 0);
  }
}

// The tensors of the demo checkpoint by name, "ones/query/kernel", in float32:
//   ones   the layer of the public question: 3 features, 1 head, head_dim 4; kernels of ones, the identity for out
//   small  256 features, 4 heads
//   base   768 features, 12 heads
// The kernels of small and base are normally distributed with deviation 1/√features, the same on every run.
Tensors DemoTensors() {
  Tensors tensors;
  AddOnes(tensors);
  AddRandom({"small", 256, 4}, tensors);
  AddRandom({"base", 768, 12}, tensors);
  return tensors;
}

}  // namespace

absl::StatusOr<std::string> Run(const ServerOptions&, const MakeDemoOptions& options) {
  std::error_code error;
  std::filesystem::create_directories(options.directory, error);
  if (error) return absl::ErrnoToStatus(error.value(), options.directory);
  const std::string file = (std::filesystem::path(options.directory) / "demo.safetensors").string();
  if (absl::Status status = WriteSafetensors(file, DemoTensors()); !status.ok()) return status;
  return absl::StrCat("wrote ", file, " with the weight sets demo/ones, demo/small and demo/base\n");
}

}  // namespace attention::cli
