#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "client/attention_client.h"
#include "server/engine/layer.h"
#include "tests/testing/files/weights.h"
#include "tests/testing/matchers.h"

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

}  // namespace attention::test
