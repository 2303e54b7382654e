#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "attention/v1/attention.pb.h"
#include "client/attention_client.h"
#include "server/server.h"
#include "tests/testing/files/temporary_folder.h"
#include "tests/testing/files/weights.h"
#include "tests/testing/server/gate.h"

namespace attention::test {

struct RawStubs;

struct RunningServerOptions {
  // The checkpoints in the weights folder when the server starts.
  std::map<std::string, Parameters> checkpoints = {};

  // More checkpoints, as the bytes of their safetensors files.
  std::map<std::string, std::string> files = {};

  // `listen` and `weights_dir` are set by RunningServer.
  server::Config config = {};

  // Blocks batches before they are computed, if not null. Must outlive the server, which then has a single runner.
  Gate* gate = nullptr;

  // Replaces the engine, if not null.
  server::ComputeFn compute = nullptr;

  // Without retries, so that tests see every rejection.
  ClientOptions client = {.max_attempts = 1};
};

// A server in this process on a free port of 127.0.0.1, with its own weights folder, and clients connected to it. The
// destructor stops the server and removes the folder.
class RunningServer {
 public:
  static absl::StatusOr<std::unique_ptr<RunningServer>> Start(const RunningServerOptions& options = {});

  ~RunningServer();

  server::Server& server() { return *server_; }
  const std::string& address() const { return server_->addresses().front(); }
  const TemporaryFolder& weights_folder() const { return weights_folder_; }

  const Client& client() const { return *client_; }
  const RawStubs& raw() const { return *raw_; }

  // Writes a checkpoint into the weights folder and loads it with a call.
  absl::Status Load(const std::string& checkpoint, const Parameters& parameters);

  // One call of the generated stub, which sends the request unchecked.
  absl::StatusOr<v1::AttendResponse> AttendRaw(const v1::AttendRequest& request);

 private:
  RunningServer();
  absl::Status Run(const RunningServerOptions& options);

  TemporaryFolder weights_folder_;
  std::unique_ptr<server::Server> server_;
  std::optional<Client> client_;
  std::unique_ptr<RawStubs> raw_;
};

// The real engine, for tests that wrap it.
absl::StatusOr<server::ComputeFn> EngineCompute(int num_threads);

}  // namespace attention::test
