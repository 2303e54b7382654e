#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "server/rpc/attend_service.h"
#include "server/rpc/grpc_status.h"

namespace attention::server {
namespace {

// Requests of one stream that were read and not answered yet. At this number the stream stops reading.
constexpr int kMaxActiveRequests = 64;

void FillError(const absl::Status& status, v1::RequestError* error) {
  error->set_code(ToGrpcCode(status.code()));
  error->set_message(TruncateMessage(status.message()));
  error->set_retry_pushback_ms(RetryPushbackMs(status).value_or(0));
}

// One AttendStream call: reads requests, starts each, and writes the replies one at a time in the order in which the
// requests finish.
//
// Owned by gRPC, which calls OnDone after every other callback. Finish is called once no read, no write and no request
// is active, and the client has half-closed or the call was cancelled. So a request that is being computed when the
// call is cancelled stops first, and its reply is dropped.
class AttendStreamReactor final : public grpc::ServerBidiReactor<v1::AttendRequest, v1::AttendStreamResponse> {
 public:
  AttendStreamReactor(grpc::CallbackServerContext* call, const AttendContext& context)
      : context_(context), stop_(DeadlineOf(*call), context.admission->stopped()) {}

  // Starts the first read.
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
    Ticket ticket;  // held until the reply is sent or dropped
  };

  // The next gRPC operations. Chosen under the lock and started without it, because gRPC may call back on this thread.
  struct NextOperations {
    Item* read = nullptr;
    Item* write = nullptr;
    bool finish = false;
    bool cancelled = false;
  };

  void StartItem(std::unique_ptr<Item> item);
  void EndItem(std::unique_ptr<Item> item, const absl::Status& status) ABSL_LOCKS_EXCLUDED(mu_);
  NextOperations ChooseNext() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void StartNext(const NextOperations& next) ABSL_LOCKS_EXCLUDED(mu_);

  // Constant after construction.
  const AttendContext context_;
  StopToken stop_;  // of all requests

  absl::Mutex mu_;
  std::unique_ptr<Item> reading_ ABSL_GUARDED_BY(mu_);              // receives the active read
  std::unique_ptr<Item> writing_ ABSL_GUARDED_BY(mu_);              // its reply is being written
  std::deque<std::unique_ptr<Item>> replies_ ABSL_GUARDED_BY(mu_);  // to be written
  int active_requests_ ABSL_GUARDED_BY(mu_) = 0;
  bool starting_ ABSL_GUARDED_BY(mu_) = false;  // OnReadDone is running
  bool half_closed_ ABSL_GUARDED_BY(mu_) = false;
  bool cancelled_ ABSL_GUARDED_BY(mu_) = false;
  bool finished_ ABSL_GUARDED_BY(mu_) = false;
};

void AttendStreamReactor::Start() {
  NextOperations next;
  {
    absl::MutexLock lock(&mu_);
    next = ChooseNext();
  }
  StartNext(next);
}

void AttendStreamReactor::OnReadDone(bool ok) {
  std::unique_ptr<Item> item;
  {
    absl::MutexLock lock(&mu_);
    item = std::move(reading_);
    if (ok) {
      ++active_requests_;
      starting_ = true;
    } else {
      half_closed_ = true;
    }
  }
  // The next read starts only after this, so requests are queued in the order in which they arrive.
  if (ok) StartItem(std::move(item));
  NextOperations next;
  {
    absl::MutexLock lock(&mu_);
    starting_ = false;
    next = ChooseNext();
  }
  StartNext(next);
}

void AttendStreamReactor::StartItem(std::unique_ptr<Item> item) {
  absl::StatusOr<Ticket> ticket = context_.admission->Enter(RequestBytes(item->request));
  if (!ticket.ok()) return EndItem(std::move(item), ticket.status());
  item->ticket = *std::move(ticket);
  Item* const started = item.get();
  StartAttend(context_, {.request = &started->request,
                         .response = started->reply.mutable_response(),
                         .ticket = &started->ticket,
                         .stop = &stop_,
                         .done = [this, item = std::move(item)](const absl::Status& status) mutable {
                           EndItem(std::move(item), status);
                         }});
}

void AttendStreamReactor::EndItem(std::unique_ptr<Item> item, const absl::Status& status) {
  item->reply.set_request_id(item->request.request_id());
  if (!status.ok()) FillError(status, item->reply.mutable_error());
  v1::AttendRequest().Swap(&item->request);  // frees the memory, which Clear would keep
  std::unique_ptr<Item> dropped;             // destroyed after the lock is released
  NextOperations next;
  {
    absl::MutexLock lock(&mu_);
    if (cancelled_) {
      --active_requests_;
      dropped = std::move(item);
    } else {
      replies_.push_back(std::move(item));
    }
    next = ChooseNext();
  }
  StartNext(next);
}

void AttendStreamReactor::OnWriteDone(bool) {
  std::unique_ptr<Item> written;
  NextOperations next;
  {
    absl::MutexLock lock(&mu_);
    written = std::move(writing_);
    --active_requests_;
    next = ChooseNext();
  }
  StartNext(next);
}

void AttendStreamReactor::OnCancel() {
  stop_.Cancel();
  std::deque<std::unique_ptr<Item>> dropped;
  NextOperations next;
  {
    absl::MutexLock lock(&mu_);
    cancelled_ = true;
    dropped = std::move(replies_);
    replies_.clear();
    active_requests_ -= static_cast<int>(dropped.size());
    next = ChooseNext();
  }
  StartNext(next);
  context_.queue->Sweep();
}

AttendStreamReactor::NextOperations AttendStreamReactor::ChooseNext() {
  NextOperations next;
  if (finished_) return next;
  const bool more_to_read = !half_closed_ && !cancelled_;
  if (writing_ == nullptr && !replies_.empty()) {
    writing_ = std::move(replies_.front());
    replies_.pop_front();
    next.write = writing_.get();
  }
  if (more_to_read && reading_ == nullptr && !starting_ && active_requests_ < kMaxActiveRequests) {
    reading_ = std::make_unique<Item>();
    next.read = reading_.get();
  }
  finished_ = !more_to_read && reading_ == nullptr && !starting_ && active_requests_ == 0;
  next.finish = finished_;
  next.cancelled = cancelled_;
  return next;
}

void AttendStreamReactor::StartNext(const NextOperations& next) {
  if (next.write != nullptr) StartWrite(&next.write->reply);
  if (next.read != nullptr) StartRead(&next.read->request);
  if (next.finish) Finish(next.cancelled ? grpc::Status::CANCELLED : grpc::Status::OK);
}

}  // namespace

grpc::ServerBidiReactor<v1::AttendRequest, v1::AttendStreamResponse>* AttendService::AttendStream(
    grpc::CallbackServerContext* call) {
  auto* stream = new AttendStreamReactor(call, context_);
  stream->Start();
  return stream;
}

}  // namespace attention::server
