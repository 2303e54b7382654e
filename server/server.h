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

// The running service. Owns weights, queue, engine, runner and gRPC server, and starts and stops them in order.
//
//   auto server = Server::Start(config);
//   if (!server.ok()) …server.status()…
//   …wait for a signal…
//   (*server)->Stop();
//
// Thread-safe.
class Server {
 public:
  // Loads the weights folder and starts to serve; calls are accepted once this returns. Tests can pass a `compute` that
  // replaces the engine.
  // Errors: INVALID_ARGUMENT for a config that CheckConfig rejects; UNAVAILABLE, with the address, if the server cannot
  // listen on it; FAILED_PRECONDITION for broken checkpoints with Config::strict_weights; errors of the repository and
  // of the engine.
  static absl::StatusOr<std::unique_ptr<Server>> Start(const Config& config, ComputeFn compute = nullptr);

  // Calls Stop.
  ~Server();

  // The addresses that the server listens on, in the order of Config::listen, with the actual port in place of port 0:
  // "127.0.0.1:41234", "unix:/run/attention.sock".
  const std::vector<std::string>& addresses() const;

  // The served weight sets. Adding one has the same effect as loading it.
  Registry& registry();

  // Answers health checks with NOT_SERVING, rejects new calls, waits up to Config::grace for active calls, cancels the
  // remaining ones, and joins every thread. Idempotent.
  void Stop();

 private:
  class Impl;
  explicit Server(std::unique_ptr<Impl> impl);

  const std::unique_ptr<Impl> impl_;
};

}  // namespace attention::server
