#include "client/internal/stream_call.h"

#include <grpcpp/client_context.h>
#include <grpcpp/support/client_callback.h>

#include <algorithm>
#include <deque>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "client/internal/channel.h"
#include "client/internal/conversion.h"

namespace attention {
namespace {

// Maximum number of requests without a reply: as many as the server computes at a time for one stream.
constexpr int kWindow = 64;

// The call itself. It keeps itself alive until gRPC calls OnDone, even if its AttendStream is destroyed earlier.
//
// A read is always pending until one fails, which marks the end of the stream. A hold keeps gRPC from ending the call
// while writes may still be started outside its callbacks. It is released exactly once: after the half-close or at the
// end of the stream, but never while a write is pending.
class StreamCall final : public grpc::ClientBidiReactor<v1::AttendRequest, v1::AttendStreamResponse> {
 public:
  static std::shared_ptr<StreamCall> Start(v1::AttentionService::Stub& stub, const CallOptions& options) {
    KeepCallbackThreads();
    auto call = std::make_shared<StreamCall>();
    call->self_ = call;
    call->context_.set_deadline(DeadlineOf(options));
    stub.async()->AttendStream(&call->context_, call.get());
    call->AddHold();
    call->StartRead(&call->incoming_);
    call->StartCall();
    return call;
  }

  absl::Status Write(v1::AttendRequest request) ABSL_LOCKS_EXCLUDED(mu_) {
    {
      absl::MutexLock lock(&mu_);
      mu_.Await(absl::Condition(this, &StreamCall::CanWriteOrFail));
      if (half_closed_) return absl::FailedPreconditionError("stream: Write was called after WritesDone");
      if (reads_ended_) return StatusOfEndedStream();
      outgoing_ = std::move(request);
      writing_ = true;
      ++outstanding_;
    }
    StartWrite(&outgoing_);
    return absl::OkStatus();
  }

  void WritesDone() ABSL_LOCKS_EXCLUDED(mu_) {
    {
      absl::MutexLock lock(&mu_);
      if (half_closed_) return;
      half_closed_ = true;
      if (writing_ || !TakeHold()) return;
    }
    StartWritesDone();
    RemoveHold();
  }

  std::optional<v1::AttendStreamResponse> Read() ABSL_LOCKS_EXCLUDED(mu_) {
    absl::MutexLock lock(&mu_);
    mu_.Await(absl::Condition(this, &StreamCall::CanReadOrEnd));
    if (replies_.empty()) return std::nullopt;
    v1::AttendStreamResponse reply = std::move(replies_.front());
    replies_.pop_front();
    return reply;
  }

  absl::Status WaitForStatus() ABSL_LOCKS_EXCLUDED(mu_) {
    absl::MutexLock lock(&mu_);
    mu_.Await(absl::Condition(this, &StreamCall::IsDone));
    return *status_;
  }

  void Cancel() { context_.TryCancel(); }

  void OnReadDone(bool ok) override ABSL_LOCKS_EXCLUDED(mu_) {
    if (ok) {
      {
        absl::MutexLock lock(&mu_);
        replies_.push_back(std::move(incoming_));
        outstanding_ = std::max(outstanding_ - 1, 0);
      }
      incoming_.Clear();
      StartRead(&incoming_);
      return;
    }
    bool release;
    {
      absl::MutexLock lock(&mu_);
      reads_ended_ = true;
      release = !writing_ && TakeHold();
    }
    if (release) RemoveHold();
  }

  void OnWriteDone(bool /*ok*/) override ABSL_LOCKS_EXCLUDED(mu_) {
    bool half_close;
    bool release;
    {
      absl::MutexLock lock(&mu_);
      writing_ = false;
      half_close = half_closed_ && !reads_ended_;
      release = (half_closed_ || reads_ended_) && TakeHold();
    }
    if (half_close) StartWritesDone();
    if (release) RemoveHold();
  }

  void OnDone(const grpc::Status& status) override ABSL_LOCKS_EXCLUDED(mu_) {
    const std::shared_ptr<StreamCall> last_reference = std::move(self_);
    absl::MutexLock lock(&mu_);
    status_ = ToAbslStatus(status);
  }

 private:
  bool CanWriteOrFail() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    return half_closed_ || reads_ended_ || (!writing_ && outstanding_ < kWindow);
  }
  bool CanReadOrEnd() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) { return !replies_.empty() || reads_ended_; }
  bool IsDone() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) { return status_.has_value(); }

  bool TakeHold() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) { return std::exchange(holding_, false); }

  absl::Status StatusOfEndedStream() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    mu_.Await(absl::Condition(this, &StreamCall::IsDone));
    return status_->ok() ? absl::AbortedError("stream: the server ended it before this request") : *status_;
  }

  // Used only by gRPC and its callbacks.
  grpc::ClientContext context_;
  v1::AttendStreamResponse incoming_;
  std::shared_ptr<StreamCall> self_;

  absl::Mutex mu_;
  v1::AttendRequest outgoing_;  // constant while writing_
  std::deque<v1::AttendStreamResponse> replies_ ABSL_GUARDED_BY(mu_);
  int outstanding_ ABSL_GUARDED_BY(mu_) = 0;
  bool writing_ ABSL_GUARDED_BY(mu_) = false;
  bool half_closed_ ABSL_GUARDED_BY(mu_) = false;
  bool reads_ended_ ABSL_GUARDED_BY(mu_) = false;
  bool holding_ ABSL_GUARDED_BY(mu_) = true;
  std::optional<absl::Status> status_ ABSL_GUARDED_BY(mu_);
};

// The part of the stream that the user owns.
class StreamHandle final : public AttendStream {
 public:
  StreamHandle(std::shared_ptr<StreamCall> call, int64_t max_message_bytes)
      : call_(std::move(call)), max_message_bytes_(max_message_bytes) {}
  ~StreamHandle() override { call_->Cancel(); }

  absl::Status Write(const AttendRequest& request) override {
    absl::StatusOr<v1::AttendRequest> proto = ToProto(request, max_message_bytes_);
    if (!proto.ok()) return proto.status();
    return call_->Write(*std::move(proto));
  }

  void WritesDone() override { call_->WritesDone(); }

  std::optional<Item> Read() override {
    std::optional<v1::AttendStreamResponse> reply = call_->Read();
    if (!reply) return std::nullopt;
    return FromProto(*std::move(reply));
  }

  absl::Status Finish() override {
    call_->WritesDone();
    return call_->WaitForStatus();
  }

  void Cancel() override { call_->Cancel(); }

 private:
  const std::shared_ptr<StreamCall> call_;
  const int64_t max_message_bytes_;
};

}  // namespace

std::unique_ptr<AttendStream> OpenAttendStream(const Connection& connection, const CallOptions& options) {
  return std::make_unique<StreamHandle>(StreamCall::Start(*connection.attention, options),
                                        connection.options.max_message_bytes);
}

}  // namespace attention
