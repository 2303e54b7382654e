#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "attention/v1/attention.grpc.pb.h"
#include "server/rpc/attend_call.h"

namespace attention::server {

// One AttendStream call: reads requests, starts each, and writes the replies one at a time as they come.
//
// Belongs to gRPC, which ends its life through OnDone. Finish is called once nothing refers to the stream any more: no
// read or write is under way, no request is, and either the client has half-closed or the call was cancelled. A request
// that is being computed when the call is cancelled therefore ends first, and its reply is dropped.
class AttendStreamReactor final : public grpc::ServerBidiReactor<v1::AttendRequest, v1::AttendStreamResponse> {
 public:
  // Requests that were read and whose replies were not written yet; at that number the stream stops reading.
  static constexpr int kMaxUnderWay = 64;

  AttendStreamReactor(grpc::CallbackServerContext* call, const AttendContext& context)
      : call_(call), context_(context) {}

  // Begins to read.
  void Start() ABSL_LOCKS_EXCLUDED(mu_);

  void OnReadDone(bool ok) override ABSL_LOCKS_EXCLUDED(mu_);
  void OnWriteDone(bool ok) override ABSL_LOCKS_EXCLUDED(mu_);
  void OnCancel() override ABSL_LOCKS_EXCLUDED(mu_);
  void OnDone() override { delete this; }

 private:
  // One request and its reply.
  struct Item {
    v1::AttendRequest request;
    v1::AttendStreamResponse reply;
    std::optional<CallGate::Pass> pass;  // held until the reply is sent or dropped
  };

  // What to ask gRPC for next, decided under the lock and done without it, since gRPC may call back on the same thread.
  struct Step {
    Item* read = nullptr;
    Item* write = nullptr;
    bool finish = false;
    bool cancelled = false;
  };

  void StartItem(std::unique_ptr<Item> item);
  void EndItem(std::unique_ptr<Item> item, const absl::Status& status) ABSL_LOCKS_EXCLUDED(mu_);
  Step NextStep() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Do(const Step& step) ABSL_LOCKS_EXCLUDED(mu_);

  // Constant after construction.
  grpc::CallbackServerContext* const call_;
  const AttendContext context_;

  absl::Mutex mu_;
  std::unique_ptr<Item> reading_ ABSL_GUARDED_BY(mu_);              // where the read that is under way puts its request
  std::unique_ptr<Item> writing_ ABSL_GUARDED_BY(mu_);              // whose reply is being written
  std::deque<std::unique_ptr<Item>> replies_ ABSL_GUARDED_BY(mu_);  // to be written
  int under_way_ ABSL_GUARDED_BY(mu_) = 0;
  bool starting_ ABSL_GUARDED_BY(mu_) = false;  // OnReadDone is at work
  bool half_closed_ ABSL_GUARDED_BY(mu_) = false;
  bool cancelled_ ABSL_GUARDED_BY(mu_) = false;
  bool finished_ ABSL_GUARDED_BY(mu_) = false;
};

}  // namespace attention::server
