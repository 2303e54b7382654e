#include "client/internal/connection.h"

#include <grpcpp/alarm.h>
#include <grpcpp/client_context.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "client/internal/channel.h"
#include "client/internal/conversion.h"
#include "client/internal/request_conversion.h"
#include "client/internal/stream_call.h"
#include "client/internal/unary_call.h"
#include "client/internal/weight_calls.h"

namespace attention {
namespace {

using AttendDone = std::function<void(absl::StatusOr<AttendReply>)>;

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

}  // namespace

Connection::Connection(const std::string& target, const ClientOptions& options)
    : target_(target),
      options_(options),
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
  if (auto size = CheckedRequestSize(request, options_.max_message_bytes); !size.ok()) return size.status();
  auto response = Call(*attention_, &v1::AttentionService::Stub::Attend, ToProto(request), options);
  if (!response.ok()) return response.status();
  return FromProto(*std::move(response));
}

void Connection::AttendAsync(const AttendRequest& request, AttendDone done, const CallOptions& options) const {
  if (auto size = CheckedRequestSize(request, options_.max_message_bytes); !size.ok()) {
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
  return OpenAttendStream(*attention_, options_.max_message_bytes, options);
}

absl::StatusOr<LoadedCheckpoint> Connection::UploadCheckpoint(const CheckpointUpload& upload,
                                                              const CallOptions& options) const {
  const auto stub = v1::WeightService::NewStub(OpenUploadChannel(target_, options_));
  const auto response = SendCheckpoint(*stub, upload, options_.max_message_bytes, options);
  if (!response.ok()) return response.status();
  return FromProto(*response);
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
