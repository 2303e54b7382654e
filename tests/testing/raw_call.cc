#include "tests/testing/raw_call.h"

#include <utility>

#include "absl/time/clock.h"
#include "tests/testing/wire.h"

namespace attention::test {

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

}  // namespace attention::test
