#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "attention/v1/attention.grpc.pb.h"
#include "attention/v1/weights.grpc.pb.h"
#include "client/attention_client.h"
#include "server/server.h"
#include "tests/testing/gate.h"
#include "tests/testing/temporary_folder.h"
#include "tests/testing/weights.h"

namespace attention::test {

struct RunningServerOptions {
  // Checkpoints that are in the weights folder when the server starts.
  std::map<std::string, Parameters> checkpoints = {};

  // The same as whole files in the safetensors format, by checkpoint.
  std::map<std::string, std::string> files = {};

  // `listen` and `weights_dir` are set by RunningServer.
  server::Config config = {};

  // Stands before the engine if not null; must outlive the server.
  Gate* gate = nullptr;

  // Computes in place of the engine, behind the gate if there is one.
  server::ComputeFn compute = nullptr;

  // Retries are off, so that every refusal shows.
  ClientOptions client = {.max_attempts = 1};
};

// A server in this process on a free port of 127.0.0.1, with a weights folder of its own and clients that are connected
// to it. Stops and removes everything when it goes.
class RunningServer {
 public:
  static absl::StatusOr<std::unique_ptr<RunningServer>> Start(const RunningServerOptions& options = {});

  server::Server& server() { return *server_; }
  const std::string& address() const { return server_->addresses().front(); }
  const TemporaryFolder& weights_folder() const { return weights_folder_; }

  const Client& client() const { return *client_; }
  v1::AttentionService::Stub& attention_stub() { return *attention_stub_; }
  v1::WeightService::Stub& weight_stub() { return *weight_stub_; }
  const std::shared_ptr<grpc::Channel>& channel() const { return channel_; }

  // Puts a checkpoint into the weights folder and has it loaded over the wire.
  absl::Status Load(const std::string& checkpoint, const Parameters& parameters);

  // One call by the generated stub, which sends whatever stands in the request.
  absl::StatusOr<v1::AttendResponse> AttendRaw(const v1::AttendRequest& request);

 private:
  RunningServer() = default;
  absl::Status Run(const RunningServerOptions& options);

  TemporaryFolder weights_folder_;
  std::unique_ptr<server::Server> server_;
  std::optional<Client> client_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<v1::AttentionService::Stub> attention_stub_;
  std::unique_ptr<v1::WeightService::Stub> weight_stub_;
};

// The real engine, to be put behind a gate or a fault.
absl::StatusOr<server::ComputeFn> EngineCompute(int num_threads);

}  // namespace attention::test
