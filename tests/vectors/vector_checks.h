#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "tests/testing/matchers.h"
#include "tests/testing/running_server.h"
#include "tests/testing/together.h"
#include "tests/testing/vectors.h"
#include "tests/testing/wire.h"

namespace attention::test {

// Requests in flight at once where batches are shared.
inline constexpr int kInFlight = 8;

// Two servers with the same weights: one that takes each request as it comes, and one in which kInFlight requests are
// always one batch.
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

// The reply is what the case wants, in every place that it compares.
inline void ExpectRight(const VectorCase& wanted, const absl::StatusOr<AttendReply>& reply) {
  SCOPED_TRACE(wanted.name);
  ASSERT_THAT(reply, IsOk());
  for (const Expected& output : wanted.outputs) EXPECT_THAT(reply->output, Near(output));
  ASSERT_EQ(reply->attn_weights.has_value(), wanted.attn_weights.has_value());
  if (wanted.attn_weights.has_value()) {
    EXPECT_THAT(*reply->attn_weights, Near(*wanted.attn_weights));
  }
}

}  // namespace attention::test
