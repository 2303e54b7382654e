#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "tests/testing/matchers.h"
#include "tests/testing/server/running_server.h"
#include "tests/testing/server/together.h"
#include "tests/testing/server/wire.h"
#include "tests/testing/vectors/vectors.h"

namespace attention::test {

// Requests in flight together in the tests of shared batches.
inline constexpr int kInFlight = 8;

// Two servers with the same weights: a plain one, and one in which kInFlight requests always share one batch.
struct VectorServers {
  std::unique_ptr<RunningServer> plain;
  std::unique_ptr<RunningServer> sharing;

  static absl::StatusOr<VectorServers> Start(const std::map<std::string, Parameters>& checkpoints,
                                             const std::map<std::string, std::string>& files = {}) {
    auto plain = RunningServer::Start({.checkpoints = checkpoints, .files = files});
    if (!plain.ok()) return plain.status();
    auto sharing =
        RunningServer::Start({.checkpoints = checkpoints, .files = files, .config = SharingConfig(kInFlight)});
    if (!sharing.ok()) return sharing.status();
    return VectorServers{*std::move(plain), *std::move(sharing)};
  }
};

// All tensors of a file as the parameters of a checkpoint.
inline Parameters AllParameters(const TensorFile& file) {
  Parameters parameters;
  for (const server::NamedTensor& tensor : file.tensors.tensors) {
    const auto* bytes = reinterpret_cast<const char*>(tensor.data.data());
    parameters.push_back({tensor.name, tensor.dtype, tensor.shape, std::string(bytes, tensor.data.size())});
  }
  return parameters;
}

// Expects the reply to match the case everywhere that it compares.
inline void ExpectRight(const VectorCase& vector_case, const absl::StatusOr<AttendReply>& reply) {
  SCOPED_TRACE(vector_case.name);
  ASSERT_THAT(reply, IsOk());
  for (const Expected& output : vector_case.outputs) EXPECT_THAT(reply->output, Near(output));
  ASSERT_EQ(reply->attn_weights.has_value(), vector_case.attn_weights.has_value());
  if (vector_case.attn_weights.has_value()) {
    EXPECT_THAT(*reply->attn_weights, Near(*vector_case.attn_weights));
  }
}

}  // namespace attention::test
