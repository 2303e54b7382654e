#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/batching/batch_runner.h"
#include "server/config.h"
#include "server/weights/registry.h"

namespace attention::server {

// The running service: owns weights, queue, engine, runner and gRPC server, starts them, and stops them in order.
//
//   auto server = Server::Start(config);
//   if (!server.ok()) …server.status()…
//   …wait for a signal…
//   (*server)->Stop();
//
// Thread-safe.
class Server {
 public:
  // Loads the weights folder and serves; calls are accepted once this returns. `compute` is what batches are computed
  // with, for tests; null: the engine.
  // INVALID_ARGUMENT for a config that CheckConfig refuses, UNAVAILABLE with the address for one that cannot be
  // listened on, FAILED_PRECONDITION for broken checkpoints with Config::strict_weights, and what the repository or the
  // engine say when they fail.
  static absl::StatusOr<std::unique_ptr<Server>> Start(const Config& config, ComputeFn compute = nullptr);

  // Stops if Stop has not run yet.
  ~Server();

  // Where the server listens, in the order of Config::listen, with the port that port 0 became: "127.0.0.1:41234",
  // "unix:/run/attention.sock".
  const std::vector<std::string>& addresses() const;

  // The weight sets that are served; what is served here is as if it had been loaded.
  Registry& registry();

  // Answers NOT_SERVING to health checks, accepts no more calls, lets those under way end for Config::grace, cancels
  // what is left, and joins every thread. A second call does nothing.
  void Stop();

 private:
  class Impl;
  explicit Server(std::unique_ptr<Impl> impl);

  const std::unique_ptr<Impl> impl_;
};

}  // namespace attention::server
