#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "server/observability/logging.h"

namespace attention::server {

// Everything that can be set from outside. Each field is a flag, a key of the TOML file given by --config, and an
// environment variable: max_batch_tokens is --max-batch-tokens, max-batch-tokens and ATTENTION_MAX_BATCH_TOKENS. A flag
// wins over the environment, the environment over the file. Several addresses in ATTENTION_LISTEN are separated by
// commas.
struct Config {
  // Addresses to serve on, "host:port" or "unix:PATH". Port 0 takes a free one, see Server::addresses. Default:
  // loopback only, since nothing here asks a caller who he is.
  std::vector<std::string> listen = {"127.0.0.1:50051"};

  // Folder whose checkpoints are loaded at start, and from which WeightService.LoadCheckpoint loads. Empty: none.
  std::string weights_dir;

  // Do not start unless every checkpoint of the weights folder can be served. Else those that cannot are reported.
  bool strict_weights = false;

  // Look at the weights folder once a second: load files that come or change, unload what went.
  bool watch_weights = false;

  // Threads that compute. 0: one for each CPU of UsableCpus.
  int threads = 0;

  // How long a free runner waits for more requests to share a batch with. 0 (take at once what is there) gives the best
  // latency; a few milliseconds help throughput where many small requests come from many callers.
  absl::Duration batch_timeout = absl::ZeroDuration();

  // Bounds of one batch: rows to project, and requests. A request larger than max_batch_tokens runs alone.
  int64_t max_batch_tokens = 16384;
  int64_t max_batch_requests = 256;

  // Bounds of what was accepted and has not ended: requests that wait, and bytes of requests and replies (waiting or
  // computed). Beyond them callers get UNAVAILABLE and come again. A single request that has, or takes to compute, more
  // than max_inflight_bytes is RESOURCE_EXHAUSTED.
  int64_t max_queued_requests = 1024;
  int64_t max_inflight_bytes = int64_t{2} << 30;

  // Longest request and longest reply, in bytes; at most 2147483647, protobuf's own limit. A longer one is
  // RESOURCE_EXHAUSTED.
  int64_t max_message_bytes = int64_t{256} << 20;

  // Most memory that all weight sets together may take, in bytes of float32 parameters. 0: no limit.
  int64_t max_weight_bytes = 0;

  // How long accepted calls may take to end after SIGTERM; what is left then is cancelled. May be infinite.
  absl::Duration grace = absl::Seconds(10);

  LogLevel log_level = LogLevel::kInfo;
  LogFormat log_format = LogFormat::kText;
};

// What a command line asks for.
struct CommandLine {
  Config config;

  // Not empty for --help and --version: the text to print instead of serving.
  std::string text;
};

// Reads the arguments (without the program's name), the environment, and the file that --config names. Prints nothing.
// INVALID_ARGUMENT, with the flag and the value, for what is unknown, malformed or contradicts itself.
absl::StatusOr<CommandLine> ParseConfig(absl::Span<const std::string> args);

// The rules across fields and ranges, which ParseConfig applies too; for a Config that was filled by hand.
absl::Status CheckConfig(const Config& config);

}  // namespace attention::server
