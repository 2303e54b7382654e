#pragma once

#include <grpcpp/client_context.h>

#include <memory>
#include <optional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "attention/v1/attention.grpc.pb.h"

namespace attention::test {

// Counts calls that have ended. Thread-safe.
class EndCount {
 public:
  void Add();

  // Waits until so many have ended.
  void Await(int calls);

 private:
  absl::Mutex mu_;
  int ended_ ABSL_GUARDED_BY(mu_) = 0;
};

// One Attend call by the generated stub that runs by itself: it can be cancelled, and its trailer can be read.
class RawCall {
 public:
  struct Options {
    absl::Duration timeout = absl::InfiniteDuration();
    std::shared_ptr<EndCount> count = nullptr;  // told of the end, if not null
  };

  // Starts the call. `stub` must outlive this.
  RawCall(v1::AttentionService::Stub& stub, v1::AttendRequest request, const Options& options);

  // Cancels what is still under way.
  ~RawCall();

  void Cancel() { context_.TryCancel(); }

  bool HasEnded() const { return ended_.HasBeenNotified(); }

  // Waits for the end. To be called before the two below.
  const absl::Status& Await();

  const v1::AttendResponse& response() const { return response_; }

  // One value of the trailer.
  std::optional<std::string> Trailer(const std::string& key) const;

 private:
  void End(const absl::Status& status);

  const v1::AttendRequest request_;
  const Options options_;
  grpc::ClientContext context_;
  v1::AttendResponse response_;
  absl::Status status_;
  absl::Notification ended_;
};

}  // namespace attention::test
