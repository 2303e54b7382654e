#pragma once

#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "client/attention_client.h"
#include "client/cli/attend/input_flags.h"
#include "client/cli/options.h"

namespace attention::cli {

// The tensors of one call, read from where the command line says, and the request that points to them.
class CallInputs {
 public:
  // Errors of ReadTensor and ParseLiteral, with the field before them.
  static absl::StatusOr<CallInputs> Read(const InputOptions& options);

  // Valid as long as this object stays where it is.
  AttendRequest request() const;

 private:
  InputOptions options_;
  Tensor inputs_q_;
  std::optional<Tensor> inputs_k_, inputs_v_, bias_, mask_, q_segment_ids_, kv_segment_ids_;
};

// What of the options is no tensor. Valid as long as they stay where they are.
AttendRequest RequestWithoutTensors(const InputOptions& options);

// A client of that server, with the call options that its timeout asks for.
struct ServerCalls {
  static absl::StatusOr<ServerCalls> Connect(const ServerOptions& server);

  Client client;
  CallOptions options;
};

}  // namespace attention::cli
