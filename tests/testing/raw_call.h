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

// Counts ended calls. Thread-safe.
class EndCount {
 public:
  void Add();

  // Waits until `calls` calls have ended.
  void Await(int calls);

 private:
  absl::Mutex mu_;
  int ended_ ABSL_GUARDED_BY(mu_) = 0;
};

// One asynchronous Attend call of the generated stub, which can be cancelled and whose trailers can be read.
class RawCall {
 public:
  struct Options {
    absl::Duration timeout = absl::InfiniteDuration();
    std::shared_ptr<EndCount> count = nullptr;  // counts the end of the call if not null
  };

  // Starts the call. `stub` must outlive this.
  RawCall(v1::AttentionService::Stub& stub, v1::AttendRequest request, const Options& options);

  // Cancels the call if it has not ended, and waits for its end.
  ~RawCall();

  void Cancel() { context_.TryCancel(); }

  bool HasEnded() const { return ended_.HasBeenNotified(); }

  // Waits for the end of the call and returns its status. Must be called before response() and Trailer().
  const absl::Status& Await();

  const v1::AttendResponse& response() const { return response_; }

  // The value of a trailer.
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
