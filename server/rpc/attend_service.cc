#include "server/rpc/attend_service.h"

#include <optional>
#include <utility>

#include "server/rpc/grpc_status.h"

namespace attention::server {
namespace {

// One unary call. Owned by gRPC, which calls OnDone after Finish and after every other callback.
class AttendReactor final : public grpc::ServerUnaryReactor {
 public:
  AttendReactor(BatchQueue* queue, std::optional<CallGate::Pass> pass) : queue_(queue), pass_(std::move(pass)) {}

  // If the task is still queued, its `cancelled` is true now, and the sweep ends it without waiting for its turn.
  void OnCancel() override { queue_->Sweep(); }

  void OnDone() override { delete this; }

  // Both callbacks are short, so they may run on gRPC's own thread. Otherwise gRPC hands each to another thread, which
  // takes a tenth of the time of a small request.
  bool InternalInlineable() override { return true; }

 private:
  BatchQueue* const queue_;
  const std::optional<CallGate::Pass> pass_;  // held until the reply is sent
};

}  // namespace

grpc::ServerUnaryReactor* AttendService::Attend(grpc::CallbackServerContext* call, const v1::AttendRequest* request,
                                                v1::AttendResponse* response) {
  std::optional<CallGate::Pass> pass = context_.gate->Enter();
  const bool stopping = !pass.has_value();
  auto* reactor = new AttendReactor(context_.queue, std::move(pass));
  if (stopping) {
    FinishCall(call, reactor, StoppingError());
    return reactor;
  }
  StartAttend(context_, {.request = request,
                         .response = response,
                         .deadline = DeadlineOf(*call),
                         .cancelled = [call] { return call->IsCancelled(); },
                         .done = [call, reactor](const absl::Status& status) { FinishCall(call, reactor, status); }});
  return reactor;
}

}  // namespace attention::server
