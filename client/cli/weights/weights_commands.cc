#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/cli/attend/call_inputs.h"
#include "client/cli/commands.h"
#include "client/cli/tensor_files.h"
#include "client/cli/weights/demo_checkpoint.h"
#include "client/cli/weights/upload_progress.h"
#include "client/cli/weights/weights_report.h"

namespace attention::cli {

absl::StatusOr<std::string> Run(const ServerOptions& server, const ListOptions& options) {
  const absl::StatusOr<ServerCalls> calls = ServerCalls::Connect(server);
  if (!calls.ok()) return calls.status();
  const absl::StatusOr<std::vector<WeightSetInfo>> list = calls->client.ListWeightSets(options.prefix, calls->options);
  if (!list.ok()) return list.status();
  return options.json ? WeightSetsJson(*list) : WeightSetsTable(*list);
}

absl::StatusOr<std::string> Run(const ServerOptions& server, const ShowOptions& options) {
  const absl::StatusOr<ServerCalls> calls = ServerCalls::Connect(server);
  if (!calls.ok()) return calls.status();
  const absl::StatusOr<WeightSetInfo> info = calls->client.GetWeightSet(options.name, options.which, calls->options);
  if (!info.ok()) return info.status();
  return options.json ? WeightSetJson(*info) : WeightSetText(*info);
}

absl::StatusOr<std::string> Run(const ServerOptions& server, const LoadOptions& options) {
  const absl::StatusOr<ServerCalls> calls = ServerCalls::Connect(server);
  if (!calls.ok()) return calls.status();
  const absl::StatusOr<LoadedCheckpoint> loaded =
      calls->client.LoadCheckpoint(options.checkpoint, {.num_heads = options.num_heads}, calls->options);
  if (!loaded.ok()) return loaded.status();
  return LoadedText(*loaded);
}

absl::StatusOr<std::string> Run(const ServerOptions& server, const UploadOptions& options) {
  const absl::StatusOr<ServerCalls> calls = ServerCalls::Connect(server);
  if (!calls.ok()) return calls.status();
  CheckpointUpload upload{.file = options.file, .checkpoint = options.checkpoint};
  if (upload.checkpoint.empty()) upload.checkpoint = std::filesystem::path(options.file).stem().string();
  upload.options.num_heads = options.num_heads;
  const CallOptions call = server.timeout_given ? calls->options : CallOptions();
  const absl::StatusOr<LoadedCheckpoint> loaded = [&] {
    UploadProgress progress(upload.checkpoint);
    upload.progress = [&](int64_t sent, int64_t total) { progress.Show(sent, total); };
    return calls->client.UploadCheckpoint(upload, call);
  }();
  if (!loaded.ok()) return loaded.status();
  return LoadedText(*loaded);
}

absl::StatusOr<std::string> Run(const ServerOptions& server, const UnloadOptions& options) {
  const absl::StatusOr<ServerCalls> calls = ServerCalls::Connect(server);
  if (!calls.ok()) return calls.status();
  const absl::StatusOr<int64_t> version = calls->client.Unload(options.checkpoint, calls->options);
  if (!version.ok()) return version.status();
  return absl::StrCat("unloaded ", options.checkpoint, ", version ", *version, "\n");
}

absl::StatusOr<std::string> Run(const ServerOptions& server, const DeleteOptions& options) {
  const absl::StatusOr<ServerCalls> calls = ServerCalls::Connect(server);
  if (!calls.ok()) return calls.status();
  const auto versions = calls->client.Delete(options.checkpoint, options.version, calls->options);
  if (!versions.ok()) return versions.status();
  const std::string what = versions->empty()       ? "which had no version"
                           : versions->size() == 1 ? "version "
                                                   : "versions ";
  return absl::StrCat("deleted ", options.checkpoint, ", ", what, absl::StrJoin(*versions, ", "),
                      options.version == 0 ? "; also its file, if the weights folder had one" : "", "\n");
}

absl::StatusOr<std::string> Run(const ServerOptions& server, const AliasOptions& options) {
  const absl::StatusOr<ServerCalls> calls = ServerCalls::Connect(server);
  if (!calls.ok()) return calls.status();
  const AliasChange& change = options.change;
  const absl::StatusOr<int64_t> previous = calls->client.SetAlias(change, calls->options);
  if (!previous.ok()) return previous.status();
  const std::string before = *previous == 0 ? "nothing" : absl::StrCat("version ", *previous);
  const std::string now = change.version == 0 ? "nothing" : absl::StrCat("version ", change.version);
  return absl::StrCat(change.checkpoint, ": ", change.alias, " names ", now, ", before ", before, "\n");
}

absl::StatusOr<std::string> Run(const ServerOptions&, const MakeDemoOptions& options) {
  std::error_code error;
  std::filesystem::create_directories(options.directory, error);
  if (error) return absl::ErrnoToStatus(error.value(), options.directory);
  const std::string file = (std::filesystem::path(options.directory) / "demo.safetensors").string();
  if (absl::Status status = WriteSafetensors(file, MakeDemoCheckpoint()); !status.ok()) return status;
  return absl::StrCat("wrote ", file, ": weight sets demo/ones, demo/small, demo/base\n");
}

absl::StatusOr<std::string> Run(const ServerOptions& server, const HealthOptions& options) {
  const absl::StatusOr<ServerCalls> calls = ServerCalls::Connect(server);
  if (!calls.ok()) return calls.status();
  if (absl::Status status = calls->client.CheckHealth(options.service, calls->options); !status.ok()) return status;
  return "SERVING\n";
}

}  // namespace attention::cli
