// The calls of attention.v1.WeightService.

#include "client/weights.h"

#include <string>
#include <vector>

#include "client/attention_client.h"
#include "client/internal/connection.h"
#include "client/internal/conversion.h"
#include "client/internal/upload.h"

namespace attention {

using Stub = v1::WeightService::Stub;

absl::StatusOr<std::vector<WeightSetInfo>> Client::ListWeightSets(const std::string& prefix,
                                                                  const CallOptions& options) const {
  const gpr_timespec deadline = DeadlineOf(options);  // of all pages together
  std::vector<WeightSetInfo> infos;
  v1::ListWeightSetsRequest request;
  request.set_prefix(prefix);
  do {
    const auto response = Call(*connection_->weights, &Stub::ListWeightSets, request, deadline);
    if (!response.ok()) return response.status();
    for (const v1::WeightSetInfo& info : response->weight_sets()) infos.push_back(FromProto(info));
    request.set_page_token(response->next_page_token());
  } while (!request.page_token().empty());
  return infos;
}

absl::StatusOr<WeightSetInfo> Client::GetWeightSet(const std::string& name, const VersionChoice& which,
                                                   const CallOptions& options) const {
  v1::GetWeightSetRequest request;
  request.set_name(name);
  request.set_version(which.version);
  request.set_alias(which.alias);
  const auto response = Call(*connection_->weights, &Stub::GetWeightSet, request, DeadlineOf(options));
  if (!response.ok()) return response.status();
  return FromProto(*response);
}

absl::StatusOr<LoadedCheckpoint> Client::LoadCheckpoint(const std::string& checkpoint,
                                                        const CheckpointOptions& checkpoint_options,
                                                        const CallOptions& options) const {
  v1::LoadCheckpointRequest request;
  request.set_checkpoint(checkpoint);
  request.set_num_heads(checkpoint_options.num_heads);
  request.set_replace(checkpoint_options.replace);
  const auto response = Call(*connection_->weights, &Stub::LoadCheckpoint, request, DeadlineOf(options));
  if (!response.ok()) return response.status();
  return FromProto(*response);
}

absl::StatusOr<LoadedCheckpoint> Client::UploadCheckpoint(const CheckpointUpload& upload,
                                                          const CallOptions& options) const {
  const auto response = SendCheckpoint(*connection_, upload, options);
  if (!response.ok()) return response.status();
  return FromProto(*response);
}

absl::StatusOr<int64_t> Client::Unload(const std::string& checkpoint, const CallOptions& options) const {
  v1::UnloadRequest request;
  request.set_checkpoint(checkpoint);
  const auto response = Call(*connection_->weights, &Stub::Unload, request, DeadlineOf(options));
  if (!response.ok()) return response.status();
  return response->version();
}

absl::StatusOr<DeletedCheckpoint> Client::Delete(const std::string& checkpoint, int64_t version,
                                                 const CallOptions& options) const {
  v1::DeleteRequest request;
  request.set_checkpoint(checkpoint);
  request.set_version(version);
  const auto response = Call(*connection_->weights, &Stub::Delete, request, DeadlineOf(options));
  if (!response.ok()) return response.status();
  return DeletedCheckpoint{.versions = {response->versions().begin(), response->versions().end()},
                           .removed_files = {response->removed_files().begin(), response->removed_files().end()},
                           .remaining_files = {response->remaining_files().begin(), response->remaining_files().end()}};
}

absl::StatusOr<int64_t> Client::SetAlias(const AliasChange& change, const CallOptions& options) const {
  v1::SetAliasRequest request;
  request.set_checkpoint(change.checkpoint);
  request.set_alias(change.alias);
  request.set_version(change.version);
  if (change.expected_version) request.set_expected_version(*change.expected_version);
  const auto response = Call(*connection_->weights, &Stub::SetAlias, request, DeadlineOf(options));
  if (!response.ok()) return response.status();
  return response->previous_version();
}

}  // namespace attention
