#include "tests/testing/uploads.h"

#include <utility>

#include "tests/testing/requests.h"
#include "tests/testing/temporary_folder.h"
#include "tests/testing/wire.h"

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

RawUpload::RawUpload(v1::WeightService::Stub& stub) : writer_(stub.UploadCheckpoint(&context_, &response_)) {}

RawUpload::~RawUpload() {
  if (finished_) return;
  context_.TryCancel();
  writer_->Finish();
}

bool RawUpload::SendHeader(const std::string& checkpoint, int64_t bytes, const std::string& sha256) {
  v1::UploadCheckpointRequest part;
  part.mutable_header()->set_checkpoint(checkpoint);
  part.mutable_header()->set_bytes(bytes);
  part.mutable_header()->set_sha256(sha256);
  return Send(part);
}

bool RawUpload::SendChunk(std::string chunk) {
  v1::UploadCheckpointRequest part;
  part.set_chunk(std::move(chunk));
  return Send(part);
}

absl::StatusOr<v1::LoadCheckpointResponse> RawUpload::Finish() {
  finished_ = true;
  writer_->WritesDone();
  const grpc::Status status = writer_->Finish();
  if (!status.ok()) return ToAbsl(status);
  return response_;
}

}  // namespace attention::test
