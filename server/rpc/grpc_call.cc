#include "server/rpc/grpc_call.h"

#include <chrono>
#include <string>

#include "server/rpc/grpc_status.h"

namespace attention::server {

absl::Time DeadlineOf(const grpc::CallbackServerContext& call) {
  const std::chrono::system_clock::time_point deadline = call.deadline();
  return deadline == std::chrono::system_clock::time_point::max() ? absl::InfiniteFuture() : absl::FromChrono(deadline);
}

void FinishCall(grpc::CallbackServerContext* call, grpc::ServerUnaryReactor* reactor, const absl::Status& status) {
  if (const int64_t pushback = RetryPushbackMs(status); pushback > 0) {
    call->AddTrailingMetadata(kRetryPushbackKey, std::to_string(pushback));
  }
  reactor->Finish(ToGrpcStatus(status));
}

}  // namespace attention::server
