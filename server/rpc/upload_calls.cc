#include "server/rpc/upload_calls.h"

#include <spdlog/spdlog.h>

#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/observability/logging.h"
#include "server/rpc/grpc_status.h"
#include "server/rpc/weight_set_proto.h"

namespace attention::server {

// One call. gRPC calls back on its own threads, which hand everything over to the loader's: only that one touches what
// stands below the constants. Whatever waits for the loader keeps the call alive.
class UploadCalls::Call final : public grpc::ServerReadReactor<v1::UploadCheckpointRequest>,
                                public std::enable_shared_from_this<Call> {
 public:
  Call(UploadCalls* owner, grpc::CallbackServerContext* call, v1::LoadCheckpointResponse* response)
      : owner_(owner), call_(call), response_(response) {}

  // Begins to read.
  void Start(std::optional<CallGate::Pass> pass) {
    pass_ = std::move(pass);
    OnLoader([](Call& call) {
      call.ended_ = false;
      call.Read();
    });
  }

  // Ends a call that was not let in: at once, however busy the loader is.
  void Refuse(const absl::Status& status) { Finish(ToGrpcStatus(status)); }

  // Ends the call if it waits for bytes.
  void Stop() {
    OnLoader([](Call& call) {
      call.stopping_ = true;
      if (call.reading_ && !call.ended_) call.End(CallGate::Closed());
    });
  }

  void OnReadDone(bool ok) override {
    OnLoader([ok](Call& call) {
      if (!call.ended_) call.Step(ok);
    });
  }

  void OnDone() override { owner_->Remove(shared_from_this()); }

 private:
  template <typename Work>
  void OnLoader(Work work) {
    owner_->context_.loader->RunAlways([self = shared_from_this(), work] { work(*self); });
  }

  void Step(bool more) {
    reading_ = false;
    if (call_->IsCancelled()) return End(absl::CancelledError("the client gave up"));
    const absl::Status status = more ? Take() : Commit();
    if (!more || !status.ok()) return End(status);
    Read();
  }

  void Read() {
    if (stopping_) return End(CallGate::Closed());
    reading_ = true;
    StartRead(&part_);
  }

  absl::Status Take() {
    if (upload_ == nullptr) return Begin();
    if (part_.part_case() == v1::UploadCheckpointRequest::kChunk) return upload_->Write(part_.chunk());
    return absl::InvalidArgumentError("part: wanted a chunk in every message but the first");
  }

  absl::Status Begin() {
    if (part_.part_case() != v1::UploadCheckpointRequest::kHeader) {
      return absl::InvalidArgumentError("part: wanted the header in the first message");
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
    if (upload_ == nullptr) return absl::InvalidArgumentError("part: wanted the header in the first message, got none");
    const absl::StatusOr<Published> published = upload_->Commit();
    if (!published.ok()) return published.status();
    FillLoaded(*published, response_);
    spdlog::info("uploaded checkpoint=\"{}\" version={} weight_sets={}{}", published->checkpoint, published->version,
                 published->weight_sets.size(), published->unchanged ? " unchanged" : "");
    return absl::OkStatus();
  }

  // What was written is gone before the client hears of it.
  void End(const absl::Status& status) {
    if (!status.ok()) {
      spdlog::warn("upload checkpoint=\"{}\" failed: {}", ForLog(checkpoint_), ForLog(status.message()));
    }
    ended_ = true;
    upload_.reset();
    owner_->Leave();
    const std::optional<CallGate::Pass> pass = std::exchange(pass_, std::nullopt);
    Finish(ToGrpcStatus(status));
  }

  // Constant after construction.
  UploadCalls* const owner_;
  grpc::CallbackServerContext* const call_;
  v1::LoadCheckpointResponse* const response_;

  std::optional<CallGate::Pass> pass_;
  v1::UploadCheckpointRequest part_;  // gRPC's while reading_
  std::string checkpoint_;
  std::unique_ptr<Upload> upload_;
  bool reading_ = false;
  bool stopping_ = false;
  bool ended_ = true;  // also before it is let in
};

grpc::ServerReadReactor<v1::UploadCheckpointRequest>* UploadCalls::Start(grpc::CallbackServerContext* call,
                                                                         v1::LoadCheckpointResponse* response) {
  const auto started = std::make_shared<Call>(this, call, response);
  // The gate closes later than this does, see Close: there is a pass for whoever is let in.
  std::optional<CallGate::Pass> pass = context_.gate->Enter();
  if (absl::Status let_in = Add(started); let_in.ok()) {
    started->Start(std::move(pass));
  } else {
    pass.reset();
    started->Refuse(let_in);
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

absl::Status UploadCalls::Add(const std::shared_ptr<Call>& call) {
  absl::MutexLock lock(&mu_);
  calls_.insert(call);  // also one that is refused, which lives until gRPC has sent that
  if (closed_) return CallGate::Closed();
  if (under_way_ >= kMaxCalls) {
    return absl::UnavailableError(absl::StrCat(kMaxCalls, " uploads are under way, no more are taken"));
  }
  ++under_way_;
  return absl::OkStatus();
}

void UploadCalls::Leave() {
  absl::MutexLock lock(&mu_);
  --under_way_;
}

void UploadCalls::Remove(const std::shared_ptr<Call>& call) {
  absl::MutexLock lock(&mu_);
  calls_.erase(call);
}

}  // namespace attention::server
