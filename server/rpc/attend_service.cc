#include "server/rpc/attend_service.h"

#include "server/rpc/grpc_status.h"

namespace attention::server {

grpc::ServerUnaryReactor* AttendService::Attend(grpc::CallbackServerContext* call, const v1::AttendRequest* request,
                                                v1::AttendResponse* response) {
  // A task that is still queued when its call is cancelled ends without waiting for its turn.
  auto* unary = new UnaryCall(call, context_.admission->stopped(), [queue = context_.queue] { queue->Sweep(); });
  if (!unary->Enter(context_.admission->Enter(RequestBytes(*request)))) return unary;
  StartAttend(context_, {.request = request,
                         .response = response,
                         .ticket = unary->ticket(),
                         .stop = unary->stop(),
                         .done = [unary](const absl::Status& status) { unary->End(status); }});
  return unary;
}

}  // namespace attention::server
