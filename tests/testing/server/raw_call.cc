#include "tests/testing/server/raw_call.h"

#include <utility>

#include "absl/time/clock.h"

namespace attention::test {

absl::Status ToAbsl(const grpc::Status& status) {
  return {static_cast<absl::StatusCode>(status.error_code()), status.error_message()};
}

void EndCount::Add() {
  absl::MutexLock lock(&mu_);
  ++ended_;
}

void EndCount::Await(int calls) {
  absl::MutexLock lock(&mu_);
  const auto enough = [this, calls]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) { return ended_ >= calls; };
  mu_.Await(absl::Condition(&enough));
}

RawCall::RawCall(v1::AttentionService::Stub& stub, v1::AttendRequest request, const Options& options)
    : request_(std::move(request)), options_(options) {
  if (options.timeout != absl::InfiniteDuration()) {
    context_.set_deadline(absl::ToChronoTime(absl::Now() + options.timeout));
  }
  stub.async()->Attend(&context_, &request_, &response_, [this](const grpc::Status& status) { End(ToAbsl(status)); });
}

RawCall::~RawCall() {
  Cancel();
  Await();
}

const absl::Status& RawCall::Await() {
  ended_.WaitForNotification();
  return status_;
}

std::optional<std::string> RawCall::Trailer(const std::string& key) const {
  const auto& trailer = context_.GetServerTrailingMetadata();
  const auto found = trailer.find(key);
  if (found == trailer.end()) return std::nullopt;
  return std::string(found->second.begin(), found->second.end());
}

void RawCall::End(const absl::Status& status) {
  status_ = status;
  const std::shared_ptr<EndCount> count = options_.count;
  ended_.Notify();  // *this may be destroyed from here on
  if (count != nullptr) count->Add();
}

RawUpload::RawUpload(v1::WeightService::Stub& stub) : writer_(stub.UploadCheckpoint(&context_, &response_)) {}

RawUpload::~RawUpload() {
  if (finished_) return;
  context_.TryCancel();
  writer_->Finish();
}

bool RawUpload::SendHeader(const std::string& checkpoint, int64_t bytes, const std::string& sha256) {
  v1::UploadCheckpointRequest part;
  part.mutable_header()->set_checkpoint(checkpoint);
  part.mutable_header()->set_bytes(bytes);
  part.mutable_header()->set_sha256(sha256);
  return Send(part);
}

bool RawUpload::SendChunk(std::string chunk) {
  v1::UploadCheckpointRequest part;
  part.set_chunk(std::move(chunk));
  return Send(part);
}

absl::Status RawUpload::AwaitEnd() {
  finished_ = true;
  return ToAbsl(writer_->Finish());
}

absl::StatusOr<v1::LoadCheckpointResponse> RawUpload::Finish() {
  finished_ = true;
  writer_->WritesDone();
  const grpc::Status status = writer_->Finish();
  if (!status.ok()) return ToAbsl(status);
  return response_;
}

}  // namespace attention::test
