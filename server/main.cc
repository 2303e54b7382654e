#include <grpc/grpc.h>
#include <spdlog/spdlog.h>

#include <cstdio>
#include <string>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "server/config.h"
#include "server/observability/logging.h"
#include "server/runtime/cpu_limits.h"
#include "server/runtime/process.h"
#include "server/runtime/stop_signals.h"
#include "server/server.h"

namespace attention::server {
namespace {

constexpr int kStartFailed = 1;
constexpr int kBadArguments = 2;

// Debian's abseil searches for deadlocks whenever a mutex is locked, gRPC's included. The search uses one graph under
// one lock, which all threads would wait for.
void DisableDeadlockDetection() { absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore); }

int Run(const std::vector<std::string>& args) {
  RetainFreedMemory();
  RaiseDescriptorLimit();
  DisableDeadlockDetection();
  const auto command_line = ParseConfig(args);
  if (!command_line.ok()) {
    std::fprintf(stderr, "attention_server: %s\n", std::string(command_line.status().message()).c_str());
    return kBadArguments;
  }
  if (!command_line->text.empty()) {
    std::fputs(command_line->text.c_str(), stdout);
    return 0;
  }
  const Config& config = command_line->config;
  StartLogging(config.log_level, config.log_format);
  for (const std::string& warning : command_line->warnings) spdlog::warn("{}", warning);
  StopSignals signals;
  spdlog::info("starting with {}", ReadCpuLimits().Describe());
  // Without grpc_shutdown at the end: the last one joins a polling thread, which may sleep for ten seconds.
  grpc_init();
  auto server = Server::Start(config);
  if (!server.ok()) {
    std::fprintf(stderr, "attention_server: %s\n", std::string(server.status().message()).c_str());
    return kStartFailed;
  }
  signals.SetServing();
  signals.Wait();
  (*server)->Stop();
  return 0;
}

}  // namespace
}  // namespace attention::server

int main(int argc, char** argv) { return attention::server::Run(std::vector<std::string>(argv + 1, argv + argc)); }
