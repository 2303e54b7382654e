#pragma once

#include <cstdint>
#include <string>

#include "absl/functional/any_invocable.h"
#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "attention/v1/weights.grpc.pb.h"
#include "server/admission/admission.h"
#include "server/rpc/upload_calls.h"
#include "server/runtime/serial_executor.h"
#include "server/weights/registry.h"
#include "server/weights/repository.h"

namespace attention::server {

// Implements attention.v1.WeightService. Look-ups are answered at once from the registry; changes run one after the
// other on `loader`. Thread-safe.
class WeightService final : public v1::WeightService::CallbackService {
 public:
  // All arguments must outlive the service and its calls.
  WeightService(Registry* registry, Repository* repository, SerialExecutor* loader, Admission* admission,
                absl::Duration upload_idle_timeout)
      : registry_(registry),
        repository_(repository),
        loader_(loader),
        admission_(admission),
        uploads_({repository, loader, admission, upload_idle_timeout}) {}

  // Ends uploads that still wait for bytes. Called when the server stops, before it closes the admission.
  void CloseUploads() { uploads_.Close(); }

  grpc::ServerUnaryReactor* ListWeightSets(grpc::CallbackServerContext* call, const v1::ListWeightSetsRequest* request,
                                           v1::ListWeightSetsResponse* response) override;
  grpc::ServerUnaryReactor* GetWeightSet(grpc::CallbackServerContext* call, const v1::GetWeightSetRequest* request,
                                         v1::WeightSetInfo* response) override;
  grpc::ServerUnaryReactor* LoadCheckpoint(grpc::CallbackServerContext* call, const v1::LoadCheckpointRequest* request,
                                           v1::LoadCheckpointResponse* response) override;
  grpc::ServerReadReactor<v1::UploadCheckpointRequest>* UploadCheckpoint(grpc::CallbackServerContext* call,
                                                                         v1::LoadCheckpointResponse* response) override;
  grpc::ServerUnaryReactor* Unload(grpc::CallbackServerContext* call, const v1::UnloadRequest* request,
                                   v1::UnloadResponse* response) override;
  grpc::ServerUnaryReactor* Delete(grpc::CallbackServerContext* call, const v1::DeleteRequest* request,
                                   v1::DeleteResponse* response) override;
  grpc::ServerUnaryReactor* SetAlias(grpc::CallbackServerContext* call, const v1::SetAliasRequest* request,
                                     v1::SetAliasResponse* response) override;

 private:
  using Change = absl::AnyInvocable<absl::Status()>;

  // Answers a look-up on gRPC's own thread.
  grpc::ServerUnaryReactor* Answer(grpc::CallbackServerContext* call, const google::protobuf::Message& request,
                                   absl::FunctionRef<absl::Status()> look_up);

  // Runs a change on the loader and ends the call with its status. `what` names the change in the log if it fails.
  grpc::ServerUnaryReactor* RunOnLoader(grpc::CallbackServerContext* call, const google::protobuf::Message& request,
                                        std::string what, Change change);

  // The work of the RPCs with similar names.
  absl::Status List(const v1::ListWeightSetsRequest& request, v1::ListWeightSetsResponse* response) const;
  absl::Status Find(const v1::GetWeightSetRequest& request, v1::WeightSetInfo* response) const;
  absl::Status Load(const v1::LoadCheckpointRequest& request, v1::LoadCheckpointResponse* response);
  absl::Status StopServing(const v1::UnloadRequest& request, v1::UnloadResponse* response);
  absl::Status Remove(const v1::DeleteRequest& request, v1::DeleteResponse* response);
  absl::Status MoveAlias(const v1::SetAliasRequest& request, v1::SetAliasResponse* response);

  Registry* const registry_;
  Repository* const repository_;
  SerialExecutor* const loader_;
  Admission* const admission_;
  UploadCalls uploads_;
};

// The last weight set of a page of ListWeightSets. The next page starts after it, even if weight sets were added or
// removed in between: the server keeps no state between pages.
struct PageEnd {
  std::string name;
  int64_t version = 0;
};

std::string MakePageToken(const PageEnd& end);

// INVALID_ARGUMENT for a text that MakePageToken does not produce.
absl::StatusOr<PageEnd> ParsePageToken(absl::string_view token);

}  // namespace attention::server
