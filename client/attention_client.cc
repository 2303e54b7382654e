#include "client/attention_client.h"

#include <utility>

#include "client/internal/channel.h"
#include "client/internal/connection.h"

namespace attention {

Client::Client(std::shared_ptr<Connection> connection) : connection_(std::move(connection)) {}

absl::StatusOr<Client> Client::Connect(const std::string& target, const ClientOptions& options) {
  if (target.empty()) return absl::InvalidArgumentError("target: wanted an address, got none");
  if (absl::Status status = CheckOptions(options); !status.ok()) return status;
  return Client(std::make_shared<Connection>(target, options));
}

absl::Status Client::WaitUntilReady(std::chrono::nanoseconds timeout) const {
  return connection_->WaitUntilReady(timeout);
}

absl::StatusOr<AttendReply> Client::Attend(const AttendRequest& request, const CallOptions& options) const {
  return connection_->Attend(request, options);
}

void Client::AttendAsync(const AttendRequest& request, std::function<void(absl::StatusOr<AttendReply>)> done,
                         const CallOptions& options) const {
  connection_->AttendAsync(request, std::move(done), options);
}

std::future<absl::StatusOr<AttendReply>> Client::AttendFuture(const AttendRequest& request,
                                                              const CallOptions& options) const {
  auto promise = std::make_shared<std::promise<absl::StatusOr<AttendReply>>>();
  std::future<absl::StatusOr<AttendReply>> future = promise->get_future();
  AttendAsync(
      request, [promise](absl::StatusOr<AttendReply> reply) { promise->set_value(std::move(reply)); }, options);
  return future;
}

std::unique_ptr<AttendStream> Client::OpenStream(const CallOptions& options) const {
  return connection_->OpenStream(options);
}

absl::StatusOr<std::vector<WeightSetInfo>> Client::ListWeightSets(const std::string& prefix,
                                                                  const CallOptions& options) const {
  return connection_->weights().List(prefix, options);
}

absl::StatusOr<WeightSetInfo> Client::GetWeightSet(const std::string& name, const VersionChoice& which,
                                                   const CallOptions& options) const {
  return connection_->weights().Get(name, which, options);
}

absl::StatusOr<LoadedCheckpoint> Client::LoadCheckpoint(const std::string& checkpoint,
                                                        const CheckpointOptions& checkpoint_options,
                                                        const CallOptions& options) const {
  return connection_->weights().Load(checkpoint, checkpoint_options, options);
}

absl::StatusOr<LoadedCheckpoint> Client::UploadCheckpoint(const CheckpointUpload& upload,
                                                          const CallOptions& options) const {
  return connection_->UploadCheckpoint(upload, options);
}

absl::StatusOr<int64_t> Client::Unload(const std::string& checkpoint, const CallOptions& options) const {
  return connection_->weights().Unload(checkpoint, options);
}

absl::StatusOr<std::vector<int64_t>> Client::Delete(const std::string& checkpoint, int64_t version,
                                                    const CallOptions& options) const {
  return connection_->weights().Delete(checkpoint, version, options);
}

absl::StatusOr<int64_t> Client::SetAlias(const AliasChange& change, const CallOptions& options) const {
  return connection_->weights().SetAlias(change, options);
}

absl::Status Client::CheckHealth(const std::string& service, const CallOptions& options) const {
  return connection_->CheckHealth(service, options);
}

}  // namespace attention
