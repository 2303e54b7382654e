#include <grpc/grpc.h>
#include <signal.h>
#include <spdlog/spdlog.h>

#include <cstdio>
#include <string>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "server/config.h"
#include "server/observability/logging.h"
#include "server/runtime/freed_memory.h"
#include "server/server.h"

namespace attention::server {
namespace {

constexpr int kStartFailed = 1;
constexpr int kBadArguments = 2;

// Debian's abseil looks for deadlocks at every lock, gRPC's among them: in one graph, behind one lock of all threads.
void DoNotLookForDeadlocks() { absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore); }

// Blocked before any thread exists, so that every thread inherits it and the signals wait for sigwait.
sigset_t BlockStopSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  return signals;
}

void WaitForStop(const sigset_t& signals) {
  int signal = 0;
  sigwait(&signals, &signal);
  spdlog::info("got {}; a second one ends the process at once", signal == SIGTERM ? "SIGTERM" : "SIGINT");
  pthread_sigmask(SIG_UNBLOCK, &signals, nullptr);
}

int Run(const std::vector<std::string>& args) {
  KeepFreedMemory();
  DoNotLookForDeadlocks();
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
  const sigset_t signals = BlockStopSignals();
  // Never undone: the last grpc_shutdown joins a polling thread that may have just gone to sleep for ten seconds.
  grpc_init();
  auto server = Server::Start(config);
  if (!server.ok()) {
    std::fprintf(stderr, "attention_server: %s\n", std::string(server.status().message()).c_str());
    return kStartFailed;
  }
  WaitForStop(signals);
  (*server)->Stop();
  return 0;
}

}  // namespace
}  // namespace attention::server

int main(int argc, char** argv) { return attention::server::Run(std::vector<std::string>(argv + 1, argv + argc)); }
