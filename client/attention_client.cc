#include "client/attention_client.h"

#include <grpcpp/alarm.h>
#include <grpcpp/client_context.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "client/internal/channel.h"
#include "client/internal/connection.h"
#include "client/internal/conversion.h"
#include "client/internal/field_error.h"
#include "client/internal/stream_call.h"

namespace attention {
namespace {

using AttendDone = std::function<void(absl::StatusOr<AttendReply>)>;

// The state of an asynchronous call, which lives until the call ends.
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

// Runs `done` on a gRPC thread, as a call does, because the caller may hold a lock that `done` takes.
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

Client::Client(std::shared_ptr<Connection> connection) : connection_(std::move(connection)) {}

absl::StatusOr<Client> Client::Connect(const std::string& target, const ClientOptions& options) {
  if (target.empty()) return FieldError("target", "an address", "\"\"");
  if (absl::Status status = CheckOptions(options); !status.ok()) return status;
  return Client(std::make_shared<Connection>(target, options));
}

absl::Status Client::WaitUntilReady(std::chrono::nanoseconds timeout) const {
  if (connection_->channel->WaitForConnected(DeadlineAfter(timeout))) return absl::OkStatus();
  const auto milliseconds = std::chrono::duration_cast<std::chrono::milliseconds>(timeout);
  return absl::DeadlineExceededError(
      absl::StrCat(connection_->target, ": no server answered within ", milliseconds.count(), " ms"));
}

absl::StatusOr<AttendReply> Client::Attend(const AttendRequest& request, const CallOptions& options) const {
  const auto proto = ToProto(request, connection_->options.max_message_bytes);
  if (!proto.ok()) return proto.status();
  auto response = Call(*connection_->attention, &v1::AttentionService::Stub::Attend, *proto, DeadlineOf(options));
  if (!response.ok()) return response.status();
  return FromProto(*std::move(response));
}

void Client::AttendAsync(const AttendRequest& request, AttendDone done, const CallOptions& options) const {
  auto proto = ToProto(request, connection_->options.max_message_bytes);
  if (!proto.ok()) return FailLater(proto.status(), std::move(done));
  KeepCallbackThreads();
  auto* call = new AsyncAttend;
  call->context.set_deadline(DeadlineOf(options));
  call->request = *std::move(proto);
  call->done = std::move(done);
  connection_->attention->async()->Attend(
      &call->context, &call->request, &call->response,
      [call](const grpc::Status& status) { Finish(std::unique_ptr<AsyncAttend>(call), status); });
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
  return OpenAttendStream(*connection_, options);
}

absl::Status Client::CheckHealth(const std::string& service, const CallOptions& options) const {
  using grpc::health::v1::HealthCheckResponse;
  grpc::health::v1::HealthCheckRequest request;
  request.set_service(service);
  const auto response =
      Call(*connection_->health, &grpc::health::v1::Health::Stub::Check, request, DeadlineOf(options));
  if (!response.ok()) return response.status();
  if (response->status() == HealthCheckResponse::SERVING) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat(connection_->target, ": ", service.empty() ? "the server" : service,
                                             " is ", HealthCheckResponse::ServingStatus_Name(response->status())));
}

}  // namespace attention
