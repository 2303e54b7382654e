#include "tests/testing/server/uploads.h"

#include "tests/testing/files/temporary_folder.h"
#include "tests/testing/server/requests.h"

namespace attention::test {

absl::StatusOr<LoadedCheckpoint> UploadBytes(const Client& client, const std::string& checkpoint,
                                             const std::string& bytes) {
  const TemporaryFolder folder;
  folder.Write("file", bytes);
  return client.UploadCheckpoint({.file = (folder.path() / "file").string(), .checkpoint = checkpoint});
}

server::LayerParameters SquareLayer(int64_t factor) {
  server::LayerParameters layer = OnesLayer();
  for (float& number : layer.value_kernel) number *= static_cast<float>(factor);
  for (float& number : layer.out_kernel) number *= static_cast<float>(factor);
  return layer;
}

std::string SquareFile(int64_t factor) { return Serialize(ToParameters(SquareLayer(factor))); }

Expected SquareAnswer(int64_t factor) {
  Expected answer = QuestionAnswer();
  for (double& value : answer.values) value *= static_cast<double>(factor * factor);
  answer.rel_tolerance = 1e-6;
  return answer;
}

}  // namespace attention::test
