#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/cli/call_inputs.h"
#include "client/cli/commands.h"
#include "client/cli/demo_checkpoint.h"
#include "client/cli/tensor_files.h"
#include "client/cli/weights_report.h"

namespace attention::cli {

absl::StatusOr<std::string> Run(const ServerOptions& server, const ListOptions& options) {
  const absl::StatusOr<ServerCalls> calls = ServerCalls::Connect(server);
  if (!calls.ok()) return calls.status();
  const absl::StatusOr<std::vector<WeightSetInfo>> list = calls->client.ListWeightSets(calls->options);
  if (!list.ok()) return list.status();
  return options.json ? WeightSetsJson(*list) : WeightSetsTable(*list);
}

absl::StatusOr<std::string> Run(const ServerOptions& server, const ShowOptions& options) {
  const absl::StatusOr<ServerCalls> calls = ServerCalls::Connect(server);
  if (!calls.ok()) return calls.status();
  const absl::StatusOr<WeightSetInfo> info = calls->client.GetWeightSet(options.name, calls->options);
  if (!info.ok()) return info.status();
  return options.json ? WeightSetJson(*info) : WeightSetText(*info);
}

absl::StatusOr<std::string> Run(const ServerOptions& server, const LoadOptions& options) {
  const absl::StatusOr<ServerCalls> calls = ServerCalls::Connect(server);
  if (!calls.ok()) return calls.status();
  const absl::StatusOr<LoadedCheckpoint> loaded = calls->client.LoadCheckpoint(options.checkpoint, calls->options);
  if (!loaded.ok()) return loaded.status();
  std::string text = WeightSetsTable(loaded->weight_sets);
  if (!loaded->unused_tensors.empty()) {
    absl::StrAppend(&text, "tensors that belong to no attention layer: ", absl::StrJoin(loaded->unused_tensors, ", "),
                    "\n");
  }
  return text;
}

absl::StatusOr<std::string> Run(const ServerOptions& server, const UnloadOptions& options) {
  const absl::StatusOr<ServerCalls> calls = ServerCalls::Connect(server);
  if (!calls.ok()) return calls.status();
  const absl::StatusOr<int64_t> version = calls->client.Unload(options.name, calls->options);
  if (!version.ok()) return version.status();
  return absl::StrCat("unloaded ", options.name, ", version ", *version, "\n");
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
