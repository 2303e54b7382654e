#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "server/observability/logging.h"

namespace attention::server {

// The settings of the server. Each field is a flag, a key of the TOML file of --config, and an environment variable:
// max_batch_tokens is --max-batch-tokens, max-batch-tokens and ATTENTION_MAX_BATCH_TOKENS. A flag overrides the
// environment, and the environment overrides the file. Several addresses in ATTENTION_LISTEN are separated by commas.
struct Config {
  // Addresses to listen on, "host:port" or "unix:PATH". Port 0 chooses a free port; see Server::addresses. The default
  // is loopback only, because callers are not authenticated.
  std::vector<std::string> listen = {"127.0.0.1:50051"};

  // Folder whose checkpoints are loaded at start, and from which WeightService.LoadCheckpoint loads. Empty: none.
  std::string weights_dir;

  // Do not start unless every checkpoint of the weights folder can be loaded. Otherwise broken ones are only logged.
  bool strict_weights = false;

  // Check the weights folder once a second: load new and changed files, unload deleted ones.
  bool watch_weights = false;

  // Compute threads. 0: as many as UsableCpus.
  int threads = 0;

  // Threads that compute only small requests (below about 0.2 ms of computation), each alone, so that these do not wait
  // for an expensive batch. 0: they wait for their turn. Negative: half as many as compute threads, at least 1.
  int small_threads = -1;

  // How long a free runner waits for more requests to fill a batch. 0 (compute what is queued at once) gives the best
  // latency; a few milliseconds improve throughput if many clients send small requests.
  absl::Duration batch_timeout = absl::ZeroDuration();

  // Limits of one batch: tokens (input rows that the computation needs), and requests. A request with more tokens runs
  // alone.
  int64_t max_batch_tokens = 16384;
  int64_t max_batch_requests = 256;

  // Limits of accepted work: queued requests; how long a request is expected to wait in the queue; and memory of
  // requests received, of their computation, and of replies not yet sent. Above them a request gets UNAVAILABLE and can
  // be retried. A single request that needs more than max_inflight_bytes gets RESOURCE_EXHAUSTED.
  int64_t max_queued_requests = 1024;
  absl::Duration max_queue_delay = absl::Seconds(10);
  int64_t max_inflight_bytes = int64_t{2} << 30;

  // Maximum cost of a request in multiply-adds, computed from its sizes and lengths; RESOURCE_EXHAUSTED above it. 0: no
  // limit. A core computes some 10¹¹ a second, so the default is some 20 s of one core.
  int64_t max_request_cost = 2'000'000'000'000;

  // Maximum size of a request and of a reply in bytes, up to protobuf's limit of 2147483647. Larger ones get
  // RESOURCE_EXHAUSTED.
  int64_t max_message_bytes = int64_t{256} << 20;

  // Maximum memory of all weight sets together, in bytes of float32 parameters. 0: three quarters of MemoryLimitBytes.
  int64_t max_weight_bytes = 0;

  // How many of the highest versions of a checkpoint are kept, besides those that an alias names. More than 1 allows
  // callers to go back to a replaced version, and takes memory for each version.
  int64_t keep_versions = 2;

  // Maximum bytes on the disk of stored and arriving uploads. Further bytes get RESOURCE_EXHAUSTED. 0: no limit.
  int64_t max_weight_storage = 0;

  // How long an upload may send nothing before it ends with DEADLINE_EXCEEDED, which frees its place and its disk space
  // for others. Uploads beyond the maximum number wait as long for their turn. May be infinite.
  absl::Duration upload_idle_timeout = absl::Seconds(60);
  // Maximum open connections. Further ones are closed at once, as are those that the limit of open files leaves no room
  // for.
  int64_t max_connections = 4096;

  // A connection of this age is closed once its calls have ended, at the latest after `grace`. 0: none is. For load
  // balancers that choose a server for each connection: the clients of a new server come only when they reconnect.
  absl::Duration max_connection_age = absl::ZeroDuration();

  // Permissions of unix sockets. By default as the umask of the process says.
  std::optional<int> unix_mode = std::nullopt;

  // How long active calls may take to finish after SIGTERM; then they are cancelled. May be infinite.
  absl::Duration grace = absl::Seconds(10);

  LogLevel log_level = LogLevel::kInfo;
  LogFormat log_format = LogFormat::kText;
};

// The result of parsing the command line.
struct CommandLine {
  Config config;

  // What was ignored, to be logged.
  std::vector<std::string> warnings;

  // For --help and --version: the text to print instead of serving. Otherwise empty.
  std::string text;
};

// Parses the arguments (without the program's name), the environment and the file of --config. Prints nothing.
// INVALID_ARGUMENT, with the flag and the value, for an unknown flag, a malformed value or contradictory values.
absl::StatusOr<CommandLine> ParseConfig(absl::Span<const std::string> args);

// Checks the ranges of all fields and the rules between them. ParseConfig does this too; for a Config set by code.
absl::Status CheckConfig(const Config& config);

}  // namespace attention::server
