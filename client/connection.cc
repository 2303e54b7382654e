#include "client/connection.h"

#include <grpcpp/alarm.h>
#include <grpcpp/client_context.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "client/callback_threads.h"
#include "client/channel.h"
#include "client/conversion.h"
#include "client/deadline.h"
#include "client/grpc_status.h"
#include "client/request_size.h"
#include "client/stream_call.h"

namespace attention {
namespace {

using AttendDone = std::function<void(absl::StatusOr<AttendReply>)>;

template <typename Stub, typename Request, typename Response>
absl::StatusOr<Response> Call(Stub& stub, grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&, Response*),
                              const Request& request, const CallOptions& options) {
  grpc::ClientContext context;
  SetDeadline(options, context);
  Response response;
  if (absl::Status status = ToAbslStatus((stub.*method)(&context, request, &response)); !status.ok()) return status;
  return response;
}

// What must live until the call ends. Deletes itself then.
struct AsyncAttend {
  grpc::ClientContext context;
  v1::AttendRequest request;
  v1::AttendResponse response;
  AttendDone done;
};

void Finish(std::unique_ptr<AsyncAttend> call, const grpc::Status& status) {
  if (status.ok()) {
    call->done(FromProto(std::move(call->response)));
  } else {
    call->done(ToAbslStatus(status));
  }
}

// Runs `done` on a thread of gRPC, as a call does: the caller may hold a lock that `done` takes.
void FailLater(absl::Status status, AttendDone done) {
  struct Failure {
    grpc::Alarm alarm;
    absl::Status status;
    AttendDone done;
  };
  auto* failure = new Failure{{}, std::move(status), std::move(done)};
  failure->alarm.Set(gpr_now(GPR_CLOCK_MONOTONIC), [failure](bool) {
    const std::unique_ptr<Failure> owned(failure);
    owned->done(std::move(owned->status));
  });
}

std::vector<WeightSetInfo> FromProtos(const google::protobuf::RepeatedPtrField<v1::WeightSetInfo>& protos) {
  std::vector<WeightSetInfo> infos;
  infos.reserve(protos.size());
  for (const v1::WeightSetInfo& proto : protos) infos.push_back(FromProto(proto));
  return infos;
}

}  // namespace

Connection::Connection(const std::string& target, const ClientOptions& options)
    : target_(target),
      max_message_bytes_(options.max_message_bytes),
      channel_(OpenChannel(target, options)),
      attention_(v1::AttentionService::NewStub(channel_)),
      weights_(v1::WeightService::NewStub(channel_)),
      health_(grpc::health::v1::Health::NewStub(channel_)) {}

absl::Status Connection::WaitUntilReady(std::chrono::nanoseconds timeout) const {
  if (channel_->WaitForConnected(DeadlineAfter(timeout))) return absl::OkStatus();
  const auto milliseconds = std::chrono::duration_cast<std::chrono::milliseconds>(timeout);
  return absl::DeadlineExceededError(
      absl::StrCat(target_, ": no server answered within ", milliseconds.count(), " ms"));
}

absl::StatusOr<AttendReply> Connection::Attend(const AttendRequest& request, const CallOptions& options) const {
  if (auto size = CheckedRequestSize(request, max_message_bytes_); !size.ok()) return size.status();
  auto response = Call(*attention_, &v1::AttentionService::Stub::Attend, ToProto(request), options);
  if (!response.ok()) return response.status();
  return FromProto(*std::move(response));
}

void Connection::AttendAsync(const AttendRequest& request, AttendDone done, const CallOptions& options) const {
  if (auto size = CheckedRequestSize(request, max_message_bytes_); !size.ok()) {
    return FailLater(size.status(), std::move(done));
  }
  KeepCallbackThreads();
  auto* call = new AsyncAttend;
  SetDeadline(options, call->context);
  call->request = ToProto(request);
  call->done = std::move(done);
  attention_->async()->Attend(&call->context, &call->request, &call->response, [call](const grpc::Status& status) {
    Finish(std::unique_ptr<AsyncAttend>(call), status);
  });
}

std::unique_ptr<AttendStream> Connection::OpenStream(const CallOptions& options) const {
  return OpenAttendStream(*attention_, max_message_bytes_, options);
}

absl::StatusOr<std::vector<WeightSetInfo>> Connection::ListWeightSets(const CallOptions& options) const {
  const v1::ListWeightSetsRequest request;
  auto response = Call(*weights_, &v1::WeightService::Stub::ListWeightSets, request, options);
  if (!response.ok()) return response.status();
  return FromProtos(response->weight_sets());
}

absl::StatusOr<WeightSetInfo> Connection::GetWeightSet(const std::string& name, const CallOptions& options) const {
  v1::GetWeightSetRequest request;
  request.set_name(name);
  auto response = Call(*weights_, &v1::WeightService::Stub::GetWeightSet, request, options);
  if (!response.ok()) return response.status();
  return FromProto(*response);
}

absl::StatusOr<LoadedCheckpoint> Connection::LoadCheckpoint(const std::string& checkpoint,
                                                            const CallOptions& options) const {
  v1::LoadCheckpointRequest request;
  request.set_checkpoint(checkpoint);
  auto response = Call(*weights_, &v1::WeightService::Stub::LoadCheckpoint, request, options);
  if (!response.ok()) return response.status();
  return LoadedCheckpoint{.weight_sets = FromProtos(response->weight_sets()),
                          .unused_tensors = {response->unused_tensors().begin(), response->unused_tensors().end()}};
}

absl::StatusOr<int64_t> Connection::Unload(const std::string& name, const CallOptions& options) const {
  v1::UnloadRequest request;
  request.set_name(name);
  auto response = Call(*weights_, &v1::WeightService::Stub::Unload, request, options);
  if (!response.ok()) return response.status();
  return response->version();
}

absl::Status Connection::CheckHealth(const std::string& service, const CallOptions& options) const {
  grpc::health::v1::HealthCheckRequest request;
  request.set_service(service);
  auto response = Call(*health_, &grpc::health::v1::Health::Stub::Check, request, options);
  if (!response.ok()) return response.status();
  if (response->status() == grpc::health::v1::HealthCheckResponse::SERVING) return absl::OkStatus();
  const std::string& status = grpc::health::v1::HealthCheckResponse::ServingStatus_Name(response->status());
  return absl::UnavailableError(absl::StrCat(target_, ": ", service.empty() ? "the server" : service, " is ", status));
}

}  // namespace attention
