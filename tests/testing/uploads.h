#pragma once

#include <grpcpp/client_context.h>

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "attention/v1/weights.grpc.pb.h"
#include "client/attention_client.h"
#include "server/engine/layer.h"
#include "tests/testing/matchers.h"
#include "tests/testing/weights.h"

namespace attention::test {

// Writes the bytes to a file and uploads it with the client library.
absl::StatusOr<LoadedCheckpoint> UploadBytes(const Client& client, const std::string& checkpoint,
                                             const std::string& bytes);

// OnesLayer with its value and out kernels multiplied by `factor`, so its answers are multiplied by the square. A
// mixture of two such layers gives another number.
server::LayerParameters SquareLayer(int64_t factor);

// SquareLayer as a checkpoint file, and its answer to QuestionRequest.
std::string SquareFile(int64_t factor);
Expected SquareAnswer(int64_t factor);

// One UploadCheckpoint call of the generated stub, which sends any sequence of messages.
class RawUpload {
 public:
  // `stub` must outlive this.
  explicit RawUpload(v1::WeightService::Stub& stub);

  // Cancels the call if it is not finished.
  ~RawUpload();

  // False once the server has ended the call.
  bool Send(const v1::UploadCheckpointRequest& part) { return writer_->Write(part); }
  bool SendHeader(const std::string& checkpoint, int64_t bytes, const std::string& sha256 = "");
  bool SendChunk(std::string chunk);

  void Cancel() { context_.TryCancel(); }

  // Half-closes and waits for the response.
  absl::StatusOr<v1::LoadCheckpointResponse> Finish();

 private:
  grpc::ClientContext context_;
  v1::LoadCheckpointResponse response_;
  std::unique_ptr<grpc::ClientWriter<v1::UploadCheckpointRequest>> writer_;
  bool finished_ = false;
};

}  // namespace attention::test
