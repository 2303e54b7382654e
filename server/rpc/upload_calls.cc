#include "server/rpc/upload_calls.h"

#include <spdlog/spdlog.h>

#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/checkpoint/field_error.h"
#include "server/observability/logging.h"
#include "server/rpc/grpc_status.h"
#include "server/rpc/proto_conversion.h"

namespace attention::server {

// One call. gRPC's threads pass every callback to the loader thread, which alone accesses the fields below the
// constants. Work that waits for the loader keeps the call alive.
class UploadCalls::Call final : public grpc::ServerReadReactor<v1::UploadCheckpointRequest>,
                                public std::enable_shared_from_this<Call> {
 public:
  Call(UploadCalls* owner, grpc::CallbackServerContext* call, v1::LoadCheckpointResponse* response)
      : owner_(owner), call_(call), response_(response) {}

  // Starts the first read.
  void Start(Ticket ticket) {
    ticket_ = std::move(ticket);
    OnLoader([](Call& call) {
      call.ended_ = false;
      call.Read();
    });
  }

  // Ends a call that was not admitted, without waiting for the loader.
  void Reject(const absl::Status& status) { Finish(ToGrpcStatus(status)); }

  // Ends the call if it waits for bytes.
  void Stop() {
    OnLoader([](Call& call) {
      call.stopping_ = true;
      if (call.reading_ && !call.ended_) call.End(StoppingError());
    });
  }

  void OnReadDone(bool ok) override {
    OnLoader([ok](Call& call) {
      if (!call.ended_) call.Advance(ok);
    });
  }

  void OnDone() override { owner_->Remove(shared_from_this()); }

 private:
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
                                                            .num_heads = header.num_heads()});
    if (!upload.ok()) return upload.status();
    upload_ = *std::move(upload);
    return absl::OkStatus();
  }

  absl::Status Commit() {
    if (upload_ == nullptr) return FieldError("part", "the header in the first message", "no message");
    const absl::StatusOr<Published> published = upload_->Commit();
    if (!published.ok()) return published.status();
    FillLoaded(*published, response_);
    spdlog::info("uploaded checkpoint=\"{}\" version={} weight_sets={}{}", published->checkpoint, published->version,
                 published->weight_sets.size(), published->unchanged ? " unchanged" : "");
    return absl::OkStatus();
  }

  // Discards the upload before the client learns the status.
  void End(const absl::Status& status) {
    if (!status.ok()) {
      spdlog::warn("upload checkpoint=\"{}\" failed: {}", ForLog(checkpoint_), ForLog(status.message()));
    }
    ended_ = true;
    upload_.reset();
    owner_->Leave();
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
  bool reading_ = false;
  bool stopping_ = false;
  bool ended_ = true;  // also before the call is admitted
};

grpc::ServerReadReactor<v1::UploadCheckpointRequest>* UploadCalls::Start(grpc::CallbackServerContext* call,
                                                                         v1::LoadCheckpointResponse* response) {
  const auto started = std::make_shared<Call>(this, call, response);
  // The admission closes after this is closed (see Close), so only a stopping server has no ticket.
  absl::StatusOr<Ticket> ticket = context_.admission->Enter(0);
  absl::Status admitted = Add(started, ticket.status());
  if (admitted.ok()) {
    started->Start(*std::move(ticket));
  } else {
    started->Reject(admitted);
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

absl::Status UploadCalls::Add(const std::shared_ptr<Call>& call, const absl::Status& entered) {
  absl::MutexLock lock(&mu_);
  calls_.insert(call);  // also a rejected call, which must live until gRPC has sent its status
  if (!entered.ok()) return entered;
  if (closed_) return StoppingError();
  if (active_ >= kMaxUploads) {
    return absl::UnavailableError(
        absl::StrCat("uploads: expected fewer than ", kMaxUploads, " active uploads, got ", active_));
  }
  ++active_;
  return absl::OkStatus();
}

void UploadCalls::Leave() {
  absl::MutexLock lock(&mu_);
  --active_;
}

void UploadCalls::Remove(const std::shared_ptr<Call>& call) {
  absl::MutexLock lock(&mu_);
  calls_.erase(call);
}

}  // namespace attention::server
