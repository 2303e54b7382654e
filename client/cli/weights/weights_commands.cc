#include <chrono>
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/cli/commands.h"
#include "client/cli/terminal_line.h"
#include "client/cli/weights/weights_report.h"

namespace attention::cli {
namespace {

// Shows the progress of an upload, at most ten times per second.
class UploadProgress {
 public:
  explicit UploadProgress(const std::string& name) : name_(name) {}

  void Show(int64_t sent, int64_t total) {
    const Clock::time_point now = Clock::now();
    if (now < next_ && sent < total) return;
    next_ = now + std::chrono::milliseconds(100);
    line_.Show(UploadProgressText(name_, sent, total, now - start_));
  }

 private:
  using Clock = std::chrono::steady_clock;

  const std::string name_;
  const TerminalLine line_;
  const Clock::time_point start_ = Clock::now();
  Clock::time_point next_ = start_;
};

}  // namespace

absl::StatusOr<std::string> Run(const ServerOptions& server, const ListOptions& options) {
  const absl::StatusOr<ServerConnection> connection = ServerConnection::Open(server);
  if (!connection.ok()) return connection.status();
  const absl::StatusOr<std::vector<WeightSetInfo>> list =
      connection->client.ListWeightSets(options.prefix, connection->options);
  if (!list.ok()) return list.status();
  return options.json ? WeightSetsJson(*list) : WeightSetsTable(*list);
}

absl::StatusOr<std::string> Run(const ServerOptions& server, const ShowOptions& options) {
  const absl::StatusOr<ServerConnection> connection = ServerConnection::Open(server);
  if (!connection.ok()) return connection.status();
  const absl::StatusOr<WeightSetInfo> info =
      connection->client.GetWeightSet(options.name, options.which, connection->options);
  if (!info.ok()) return info.status();
  return options.json ? WeightSetJson(*info) : WeightSetText(*info);
}

absl::StatusOr<std::string> Run(const ServerOptions& server, const LoadOptions& options) {
  const absl::StatusOr<ServerConnection> connection = ServerConnection::Open(server);
  if (!connection.ok()) return connection.status();
  const absl::StatusOr<LoadedCheckpoint> loaded = connection->client.LoadCheckpoint(
      options.checkpoint, {.num_heads = options.num_heads, .replace = options.replace}, connection->options);
  if (!loaded.ok()) return loaded.status();
  return LoadedText(*loaded);
}

absl::StatusOr<std::string> Run(const ServerOptions& server, const UploadOptions& options) {
  const absl::StatusOr<ServerConnection> connection = ServerConnection::Open(server);
  if (!connection.ok()) return connection.status();
  CheckpointUpload upload{.file = options.file, .checkpoint = options.checkpoint};
  if (upload.checkpoint.empty()) upload.checkpoint = std::filesystem::path(options.file).stem().string();
  upload.options = {.num_heads = options.num_heads, .replace = options.replace};
  const CallOptions call = server.timeout_given ? connection->options : CallOptions();
  const absl::StatusOr<LoadedCheckpoint> loaded = [&] {
    UploadProgress progress(upload.checkpoint);
    upload.progress = [&](int64_t sent, int64_t total) { progress.Show(sent, total); };
    return connection->client.UploadCheckpoint(upload, call);
  }();
  if (!loaded.ok()) return loaded.status();
  return LoadedText(*loaded);
}

absl::StatusOr<std::string> Run(const ServerOptions& server, const UnloadOptions& options) {
  const absl::StatusOr<ServerConnection> connection = ServerConnection::Open(server);
  if (!connection.ok()) return connection.status();
  const absl::StatusOr<int64_t> version = connection->client.Unload(options.checkpoint, connection->options);
  if (!version.ok()) return version.status();
  return absl::StrCat("unloaded checkpoint ", options.checkpoint, ", version ", *version, "\n");
}

absl::StatusOr<std::string> Run(const ServerOptions& server, const DeleteOptions& options) {
  const absl::StatusOr<ServerConnection> connection = ServerConnection::Open(server);
  if (!connection.ok()) return connection.status();
  const auto deleted = connection->client.Delete(options.checkpoint, options.version, connection->options);
  if (!deleted.ok()) return deleted.status();
  return DeletedText(options.checkpoint, *deleted);
}

absl::StatusOr<std::string> Run(const ServerOptions& server, const AliasOptions& options) {
  const absl::StatusOr<ServerConnection> connection = ServerConnection::Open(server);
  if (!connection.ok()) return connection.status();
  const AliasChange& change = options.change;
  const absl::StatusOr<int64_t> previous = connection->client.SetAlias(change, connection->options);
  if (!previous.ok()) return previous.status();
  const std::string alias = absl::StrCat("alias ", change.alias, " of checkpoint ", change.checkpoint);
  if (change.version == 0 && *previous == 0) return absl::StrCat(alias, " does not exist\n");
  if (change.version == 0) return absl::StrCat(alias, " removed; it pointed to version ", *previous, "\n");
  const std::string before =
      *previous == 0 ? "it is new" : absl::StrCat("it pointed to version ", *previous, " before");
  return absl::StrCat(alias, " points to version ", change.version, "; ", before, "\n");
}

}  // namespace attention::cli
