#include "server/rpc/upload_calls.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <atomic>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "server/checkpoint/field_error.h"
#include "server/observability/logging.h"
#include "server/rpc/grpc_status.h"
#include "server/rpc/proto_conversion.h"
#include "server/runtime/clock.h"

namespace attention::server {
namespace {

// How often idle calls are looked for: four times in the idle timeout, within these limits.
constexpr absl::Duration kMinCheckInterval = absl::Milliseconds(10);
constexpr absl::Duration kMaxCheckInterval = absl::Seconds(1);

}  // namespace

// One call. gRPC's threads pass every callback to the loader thread, which alone accesses the fields below the
// constants. Work that waits for the loader keeps the call alive.
class UploadCalls::Call final : public grpc::ServerReadReactor<v1::UploadCheckpointRequest>,
                                public std::enable_shared_from_this<Call> {
 public:
  Call(UploadCalls* owner, grpc::CallbackServerContext* call, v1::LoadCheckpointResponse* response)
      : owner_(owner), call_(call), response_(response) {}

  // To be called before the call is added.
  void Hold(Ticket ticket) { ticket_ = std::move(ticket); }

  // Starts the first read. If the call ended while it waited, gives its place to the next one.
  void Start() {
    OnLoader([](Call& call) {
      if (call.state_ == State::kEnded) return call.owner_->Leave();
      call.state_ = State::kActive;
      call.Read();
    });
  }

  // The owner calls Start when it is the call's turn.
  void Wait() {
    OnLoader([](Call& call) {
      if (call.state_ != State::kNew) return;
      call.state_ = State::kWaiting;
      call.idle_since_ = SteadyNow();
      if (call.stopping_) call.End(StoppingError());
    });
  }

  // Ends a call that was not admitted, without waiting for the loader.
  void Reject(const absl::Status& status) {
    ticket_ = Ticket();
    Finish(ToGrpcStatus(status));
  }

  // Ends the call if it waits for bytes or for its turn.
  void Stop() {
    OnLoader([](Call& call) {
      call.stopping_ = true;
      if (call.is_idle()) call.End(StoppingError());
    });
  }

  // Ends the call if it has waited for bytes or for its turn for longer than `timeout`. On the loader thread.
  void EndIfIdle(absl::Duration timeout) {
    // A message that has arrived but waits for the loader is no fault of the client.
    if (!is_idle() || has_arrived_ || SteadyNow() - idle_since_ <= timeout) return;
    const std::string limit = absl::StrCat("--upload-idle-timeout ", absl::FormatDuration(timeout));
    if (state_ == State::kWaiting) {
      return End(absl::UnavailableError(absl::StrCat("uploads: expected fewer than ", kMaxUploads,
                                                     " active uploads within ", limit, ", got ", kMaxUploads)));
    }
    End(absl::DeadlineExceededError(absl::StrCat("part: expected a message within ", limit, ", got none")));
  }

  void OnReadDone(bool ok) override {
    has_arrived_ = true;
    OnLoader([ok](Call& call) {
      if (call.state_ == State::kActive) call.Advance(ok);
    });
  }

  void OnDone() override { owner_->Remove(shared_from_this()); }

 private:
  enum class State { kNew, kWaiting, kActive, kEnded };

  bool is_idle() const { return state_ == State::kWaiting || (state_ == State::kActive && reading_); }

  template <typename Work>
  void OnLoader(Work work) {
    owner_->context_.loader->RunAlways([self = shared_from_this(), work] { work(*self); });
  }

  void Advance(bool more) {
    reading_ = false;
    if (call_->IsCancelled()) return End(absl::CancelledError("call: cancelled by the client"));
    const absl::Status status = more ? HandlePart() : Commit();
    if (!more || !status.ok()) return End(status);
    Read();
  }

  void Read() {
    if (stopping_) return End(StoppingError());
    reading_ = true;
    has_arrived_ = false;
    idle_since_ = SteadyNow();
    StartRead(&part_);
  }

  absl::Status HandlePart() {
    if (upload_ == nullptr) return Begin();
    if (part_.part_case() == v1::UploadCheckpointRequest::kChunk) return upload_->Write(part_.chunk());
    return FieldError("part", "a chunk in every message after the first", PartName());
  }

  absl::string_view PartName() const {
    switch (part_.part_case()) {
      case v1::UploadCheckpointRequest::kHeader:
        return "a header";
      case v1::UploadCheckpointRequest::kChunk:
        return "a chunk";
      default:
        return "neither a header nor a chunk";
    }
  }

  absl::Status Begin() {
    if (part_.part_case() != v1::UploadCheckpointRequest::kHeader) {
      return FieldError("part", "the header in the first message", PartName());
    }
    const v1::UploadHeader& header = part_.header();
    checkpoint_ = header.checkpoint();
    auto upload = owner_->context_.repository->BeginUpload({.checkpoint = header.checkpoint(),
                                                            .bytes = header.bytes(),
                                                            .sha256 = header.sha256(),
                                                            .num_heads = header.num_heads(),
                                                            .replace = header.replace()});
    if (!upload.ok()) return upload.status();
    upload_ = *std::move(upload);
    return absl::OkStatus();
  }

  absl::Status Commit() {
    if (upload_ == nullptr) return FieldError("part", "the header in the first message", "no message");
    const absl::StatusOr<Published> published = upload_->Commit();
    if (!published.ok()) return published.status();
    FillLoaded(*published, response_);
    spdlog::info("uploaded checkpoint=\"{}\" version={} weight_sets={} peer={}{}", published->checkpoint,
                 published->version, published->weight_sets.size(), call_->peer(),
                 published->unchanged ? " unchanged" : "");
    return absl::OkStatus();
  }

  // Discards the upload before the client learns the status.
  void End(const absl::Status& status) {
    if (!status.ok()) {
      spdlog::warn("upload checkpoint=\"{}\" failed: {}", ForLog(checkpoint_), ForLog(status.message()));
    }
    // A call that waits has no place to leave, unless it got one just now: then Start leaves it.
    const bool has_place = state_ == State::kActive;
    state_ = State::kEnded;
    upload_.reset();
    has_place ? owner_->Leave() : owner_->StopWaiting(this);
    Finish(ToGrpcStatus(status));
  }

  // Constant after construction.
  UploadCalls* const owner_;
  grpc::CallbackServerContext* const call_;
  v1::LoadCheckpointResponse* const response_;

  Ticket ticket_;                     // until gRPC has sent the status
  v1::UploadCheckpointRequest part_;  // written by gRPC while reading_
  std::string checkpoint_;
  std::unique_ptr<Upload> upload_;
  State state_ = State::kNew;  // also of a rejected call
  bool reading_ = false;
  bool stopping_ = false;
  absl::Time idle_since_;                  // while is_idle()
  std::atomic<bool> has_arrived_ = false;  // set on gRPC's thread: the message that is_idle() waits for
};

UploadCalls::UploadCalls(const Context& context)
    : context_(context),
      idle_check_(context.loader, std::clamp(context.idle_timeout / 4, kMinCheckInterval, kMaxCheckInterval),
                  [this] { EndIdleCalls(); }) {}

grpc::ServerReadReactor<v1::UploadCheckpointRequest>* UploadCalls::Start(grpc::CallbackServerContext* call,
                                                                         v1::LoadCheckpointResponse* response) {
  const auto started = std::make_shared<Call>(this, call, response);
  absl::StatusOr<Ticket> ticket = context_.admission->Enter(0);
  const absl::Status entered = ticket.status();
  if (ticket.ok()) started->Hold(*std::move(ticket));
  const absl::StatusOr<Place> place = Add(started, entered);
  if (!place.ok()) {
    started->Reject(place.status());
  } else if (*place == Place::kActive) {
    started->Start();
  } else {
    started->Wait();
  }
  return started.get();
}

void UploadCalls::Close() {
  std::set<std::shared_ptr<Call>> calls;
  {
    absl::MutexLock lock(&mu_);
    closed_ = true;
    calls = calls_;
  }
  for (const std::shared_ptr<Call>& call : calls) call->Stop();
}

absl::StatusOr<UploadCalls::Place> UploadCalls::Add(const std::shared_ptr<Call>& call, const absl::Status& entered) {
  absl::MutexLock lock(&mu_);
  calls_.insert(call);  // also a rejected call, which must live until gRPC has sent its status
  if (!entered.ok()) return entered;
  if (closed_) return StoppingError();
  if (active_ < kMaxUploads) {
    ++active_;
    return Place::kActive;
  }
  if (waiting_.size() >= kMaxWaiting) {
    return absl::UnavailableError(
        absl::StrCat("uploads: expected fewer than ", kMaxWaiting, " waiting uploads, got ", waiting_.size()));
  }
  waiting_.push_back(call);
  return Place::kWaiting;
}

// Gives the place of an active call to the first one that waits.
void UploadCalls::Leave() {
  std::shared_ptr<Call> next;
  {
    absl::MutexLock lock(&mu_);
    if (waiting_.empty()) {
      --active_;
    } else {
      next = std::move(waiting_.front());
      waiting_.pop_front();
    }
  }
  if (next != nullptr) next->Start();
}

void UploadCalls::StopWaiting(const Call* call) {
  absl::MutexLock lock(&mu_);
  std::erase_if(waiting_, [call](const auto& waiting) { return waiting.get() == call; });
}

void UploadCalls::EndIdleCalls() {
  std::set<std::shared_ptr<Call>> calls;
  {
    absl::MutexLock lock(&mu_);
    calls = calls_;
  }
  for (const std::shared_ptr<Call>& call : calls) call->EndIfIdle(context_.idle_timeout);
}

void UploadCalls::Remove(const std::shared_ptr<Call>& call) {
  absl::MutexLock lock(&mu_);
  calls_.erase(call);
}

}  // namespace attention::server
