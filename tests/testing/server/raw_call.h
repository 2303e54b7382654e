#pragma once

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>
#include <grpcpp/support/status.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "attention/v1/attention.grpc.pb.h"
#include "attention/v1/weights.grpc.pb.h"

// Calls of the generated stubs, which send any message unchecked.
namespace attention::test {

struct RawStubs {
  explicit RawStubs(std::shared_ptr<grpc::Channel> opened)
      : channel(std::move(opened)),
        attention(v1::AttentionService::NewStub(channel)),
        weights(v1::WeightService::NewStub(channel)) {}

  std::shared_ptr<grpc::Channel> channel;
  std::unique_ptr<v1::AttentionService::Stub> attention;
  std::unique_ptr<v1::WeightService::Stub> weights;
};

absl::Status ToAbsl(const grpc::Status& status);

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

// One UploadCheckpoint call of the generated stub, which sends any sequence of messages.
class RawUpload {
 public:
  // `stub` must outlive this.
  explicit RawUpload(v1::WeightService::Stub& stub);

  // Cancels the call if it is not finished.
  ~RawUpload();

  // False once the server has ended the call.
  bool Send(const v1::UploadCheckpointRequest& part) { return writer_->Write(part); }
  bool SendHeader(const std::string& checkpoint, int64_t bytes, const std::string& sha256 = "");
  bool SendChunk(std::string chunk);

  void Cancel() { context_.TryCancel(); }

  // Waits until the server ends the call.
  absl::Status AwaitEnd();

  // Half-closes and waits for the response.
  absl::StatusOr<v1::LoadCheckpointResponse> Finish();

 private:
  grpc::ClientContext context_;
  v1::LoadCheckpointResponse response_;
  std::unique_ptr<grpc::ClientWriter<v1::UploadCheckpointRequest>> writer_;
  bool finished_ = false;
};

}  // namespace attention::test
