#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "attention/v1/attention.pb.h"
#include "server/checkpoint/formats/tensor_map.h"
#include "tests/testing/matchers.h"

namespace attention::test {

// The reason why a test of the data is skipped.
inline constexpr char kNoVectors[] = "skipped: no test vectors; set ATTENTION_TEST_VECTORS to their folder";

// The folder with the test vectors: $ATTENTION_TEST_VECTORS, else ../shared/vectors next to the source root; nullopt if
// neither exists.
std::optional<std::filesystem::path> VectorsFolder();

// Names without extension of the files in one folder of the vectors, sorted; none if there are no vectors.
std::vector<std::string> VectorFiles(const std::string& folder, const std::string& extension);

// A whole file as text. REQUIRES: it can be read.
std::string ReadText(const std::filesystem::path& path);

// A safetensors file; the tensors point into its bytes.
struct TensorFile {
  std::vector<std::byte> file;
  server::TensorMap tensors;
};
absl::StatusOr<TensorFile> OpenTensorFile(const std::filesystem::path& path);

// One request of the vectors with its expected reply.
struct VectorCase {
  std::string name;
  v1::AttendRequest request;
  std::vector<Expected> outputs;  // the reply must match each of them
  std::optional<Expected> attn_weights;
};

// Reads the case whose tensors are named PREFIX/inputs_q, PREFIX/expected … (without a slash if the prefix is empty),
// returns the attention weights if the case has some, and takes the tolerance from the file.
// INVALID_ARGUMENT if a tensor is missing.
absl::StatusOr<VectorCase> ReadVectorCase(const TensorFile& file, const std::string& prefix,
                                          const std::string& weight_set);

}  // namespace attention::test
