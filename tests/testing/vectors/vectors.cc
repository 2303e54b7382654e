#include "tests/testing/vectors/vectors.h"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "server/checkpoint/file.h"
#include "server/checkpoint/formats/safetensors.h"
#include "tests/testing/server/wire.h"

namespace attention::test {
namespace {

using server::NamedTensor;

// Finds the tensors of one case.
class CaseTensors {
 public:
  CaseTensors(const TensorFile& file, const std::string& prefix)
      : file_(file), prefix_(prefix.empty() ? "" : prefix + "/") {}

  const NamedTensor* Find(const std::string& name) const { return file_.tensors.Find(prefix_ + name); }

  bool Wire(const std::string& name, v1::Tensor* to) const {
    const NamedTensor* tensor = Find(name);
    if (tensor != nullptr) *to = WireTensor(tensor->view());
    return tensor != nullptr;
  }

  // REQUIRES: the tensor exists.
  Expected ReadExpected(const std::string& name) const {
    const NamedTensor* tensor = Find(name);
    const double tolerance = std::stod(file_.tensors.metadata.at("tolerance"));
    return {tensor->shape, Values(ClientTensor(WireTensor(tensor->view()))), tolerance};
  }

  // The rows to compare, [batch, q_length]; empty if the case has no such tensor.
  std::vector<uint8_t> Rows(const std::string& name) const {
    const NamedTensor* tensor = Find(name);
    if (tensor == nullptr) return {};
    const auto* data = reinterpret_cast<const uint8_t*>(tensor->data.data());
    return {data, data + tensor->data.size()};
  }

 private:
  const TensorFile& file_;
  const std::string prefix_;
};

// Repeats the rows [batch, q_length] for each head.
std::vector<uint8_t> ForEachHead(const std::vector<uint8_t>& rows, const std::vector<int64_t>& weights_shape) {
  if (rows.empty()) return {};
  std::vector<uint8_t> result;
  const int64_t q_length = weights_shape[2];
  for (int64_t sequence = 0; sequence < weights_shape[0]; ++sequence) {
    for (int64_t head = 0; head < weights_shape[1]; ++head) {
      result.insert(result.end(), rows.begin() + sequence * q_length, rows.begin() + (sequence + 1) * q_length);
    }
  }
  return result;
}

}  // namespace

std::optional<std::filesystem::path> VectorsFolder() {
  const char* set = std::getenv("ATTENTION_TEST_VECTORS");
  const std::filesystem::path folder =
      set != nullptr ? set : std::filesystem::path(ATTENTION_SOURCE_DIR).parent_path() / "shared" / "vectors";
  std::error_code error;
  if (!std::filesystem::is_directory(folder, error)) return std::nullopt;
  return folder;
}

std::vector<std::string> VectorFiles(const std::string& folder, const std::string& extension) {
  std::vector<std::string> names;
  const auto root = VectorsFolder();
  std::error_code error;
  if (!root.has_value() || !std::filesystem::is_directory(*root / folder, error)) return names;
  for (const auto& entry : std::filesystem::directory_iterator(*root / folder)) {
    if (entry.path().extension() == extension) names.push_back(entry.path().stem().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::string ReadText(const std::filesystem::path& path) {
  std::ifstream stream(path, std::ios::binary);
  std::ostringstream text;
  text << stream.rdbuf();
  return text.str();
}

absl::StatusOr<TensorFile> OpenTensorFile(const std::filesystem::path& path) {
  auto file = server::ReadFile(path.string(), path.filename().string());
  if (!file.ok()) return file.status();
  auto tensors = server::ParseSafetensors(*file);
  if (!tensors.ok()) return tensors.status();
  return TensorFile{*std::move(file), *std::move(tensors)};
}

absl::StatusOr<VectorCase> ReadVectorCase(const TensorFile& file, const std::string& prefix,
                                          const std::string& weight_set) {
  const CaseTensors tensors(file, prefix);
  VectorCase result;
  result.name = prefix.empty() ? weight_set : prefix;
  v1::AttendRequest& request = result.request;
  request.set_weight_set(weight_set);
  if (!tensors.Wire("inputs_q", request.mutable_inputs_q()) || tensors.Find("expected") == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat(result.name, ": inputs_q or expected is missing"));
  }
  if (tensors.Find("inputs_k") != nullptr) tensors.Wire("inputs_k", request.mutable_inputs_k());
  if (tensors.Find("inputs_v") != nullptr) tensors.Wire("inputs_v", request.mutable_inputs_v());
  if (tensors.Find("mask") != nullptr) tensors.Wire("mask", request.mutable_mask()->mutable_dense());

  const std::vector<uint8_t> rows = tensors.Rows("compare_rows");
  result.outputs.push_back(tensors.ReadExpected("expected"));
  result.outputs.back().rows = rows;
  if (tensors.Find("expected_flax") != nullptr) result.outputs.push_back(tensors.ReadExpected("expected_flax"));
  if (tensors.Find("expected_weights") != nullptr) {
    request.mutable_options()->set_return_attn_weights(true);
    result.attn_weights = tensors.ReadExpected("expected_weights");
    result.attn_weights->rows = ForEachHead(rows, result.attn_weights->shape);
  }
  return result;
}

}  // namespace attention::test
