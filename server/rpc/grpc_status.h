#pragma once

#include <grpcpp/server_context.h>
#include <grpcpp/support/server_callback.h>
#include <grpcpp/support/status.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "server/admission/admission.h"
#include "server/engine/stop_token.h"

namespace attention::server {

// Converts a status to gRPC's: the same code, and the message shortened by TruncateMessage. The only such conversion.
grpc::Status ToGrpcStatus(const absl::Status& status);

// The gRPC code with the same meaning. UNKNOWN for a number that is no absl code.
grpc::StatusCode ToGrpcCode(absl::StatusCode code);

// At most the first 1024 bytes of a message, cut between UTF-8 characters. Statuses are sent in headers, whose size is
// limited.
std::string TruncateMessage(absl::string_view message);

// The trailer that tells gRPC clients after how many milliseconds to retry a rejected call.
inline constexpr char kRetryPushbackKey[] = "grpc-retry-pushback-ms";

// The value of that trailer for a status with advice (admission/retry.h): milliseconds to wait before a retry, at least
// 1; negative if the call must not be retried.
std::optional<int64_t> RetryPushbackMs(const absl::Status& status);

// The deadline that the client set, as a time of SteadyNow; infinite if it set none.
absl::Time DeadlineOf(const grpc::CallbackServerContext& call);

// One unary call: its ticket, which is held until gRPC has sent the reply, and its StopToken, which is cancelled with
// the call. Owned by gRPC, which destroys it after every callback.
class UnaryCall : public grpc::ServerUnaryReactor {
 public:
  // `on_cancel` is called when the call is cancelled; may be null.
  UnaryCall(grpc::CallbackServerContext* call, const std::atomic<bool>* server_stops,
            std::function<void()> on_cancel = nullptr)
      : stop_(DeadlineOf(*call), server_stops), call_(call), on_cancel_(std::move(on_cancel)) {}

  // Takes the ticket; or ends the call and returns false.
  bool Enter(absl::StatusOr<Ticket> ticket);

  Ticket* ticket() { return &ticket_; }
  const StopToken* stop() const { return &stop_; }

  // Finishes the call with `status`, and adds the trailer kRetryPushbackKey if the status has advice. Afterwards the
  // call and its messages must not be accessed.
  void End(const absl::Status& status);

  void OnCancel() override {
    stop_.Cancel();
    if (on_cancel_) on_cancel_();
  }
  void OnDone() override { delete this; }

  // Both callbacks are short, so they may run on gRPC's own thread. Otherwise gRPC hands each to another thread, which
  // takes a tenth of the time of a small request.
  bool InternalInlineable() override { return true; }

 private:
  Ticket ticket_;
  StopToken stop_;
  grpc::CallbackServerContext* const call_;
  const std::function<void()> on_cancel_;
};

}  // namespace attention::server
