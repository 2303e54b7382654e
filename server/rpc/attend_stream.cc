#include "server/rpc/attend_stream.h"

#include <utility>

#include "server/rpc/grpc_status.h"

namespace attention::server {
namespace {

void FillError(const absl::Status& status, v1::RequestError* error) {
  error->set_code(ToGrpcCode(status.code()));
  error->set_message(CutMessage(status.message()));
  error->set_retry_pushback_ms(RetryPushbackMs(status));
}

}  // namespace

void AttendStreamReactor::Start() {
  Step step;
  {
    absl::MutexLock lock(&mu_);
    step = NextStep();
  }
  Do(step);
}

void AttendStreamReactor::OnReadDone(bool ok) {
  std::unique_ptr<Item> item;
  {
    absl::MutexLock lock(&mu_);
    item = std::move(reading_);
    if (ok) {
      ++under_way_;
      starting_ = true;
    } else {
      half_closed_ = true;
    }
  }
  // The next read begins only after this, so that requests are queued in the order in which they came.
  if (ok) StartItem(std::move(item));
  Step step;
  {
    absl::MutexLock lock(&mu_);
    starting_ = false;
    step = NextStep();
  }
  Do(step);
}

void AttendStreamReactor::StartItem(std::unique_ptr<Item> item) {
  item->pass = context_.gate->Enter();
  if (!item->pass) return EndItem(std::move(item), CallGate::Closed());
  Item* const at = item.get();
  StartAttend(context_, {.request = &at->request,
                         .response = at->reply.mutable_response(),
                         .deadline = DeadlineOf(*call_),
                         .cancelled = [call = call_] { return call->IsCancelled(); },
                         .done = [this, item = std::move(item)](
                                     const absl::Status& status) mutable { EndItem(std::move(item), status); }});
}

void AttendStreamReactor::EndItem(std::unique_ptr<Item> item, const absl::Status& status) {
  item->reply.set_request_id(item->request.request_id());
  if (!status.ok()) FillError(status, item->reply.mutable_error());
  v1::AttendRequest().Swap(&item->request);  // Clear would keep the memory
  std::unique_ptr<Item> dropped;             // let go after the lock
  Step step;
  {
    absl::MutexLock lock(&mu_);
    if (cancelled_) {
      --under_way_;
      dropped = std::move(item);
    } else {
      replies_.push_back(std::move(item));
    }
    step = NextStep();
  }
  Do(step);
}

void AttendStreamReactor::OnWriteDone(bool) {
  std::unique_ptr<Item> written;
  Step step;
  {
    absl::MutexLock lock(&mu_);
    written = std::move(writing_);
    --under_way_;
    step = NextStep();
  }
  Do(step);
}

void AttendStreamReactor::OnCancel() {
  std::deque<std::unique_ptr<Item>> dropped;
  Step step;
  {
    absl::MutexLock lock(&mu_);
    cancelled_ = true;
    dropped = std::move(replies_);
    replies_.clear();
    under_way_ -= static_cast<int>(dropped.size());
    step = NextStep();
  }
  Do(step);
  context_.queue->Sweep();
}

AttendStreamReactor::Step AttendStreamReactor::NextStep() {
  Step step;
  if (finished_) return step;
  const bool more_to_read = !half_closed_ && !cancelled_;
  if (writing_ == nullptr && !replies_.empty()) {
    writing_ = std::move(replies_.front());
    replies_.pop_front();
    step.write = writing_.get();
  }
  if (more_to_read && reading_ == nullptr && !starting_ && under_way_ < kMaxUnderWay) {
    reading_ = std::make_unique<Item>();
    step.read = reading_.get();
  }
  finished_ = !more_to_read && reading_ == nullptr && !starting_ && under_way_ == 0;
  step.finish = finished_;
  step.cancelled = cancelled_;
  return step;
}

void AttendStreamReactor::Do(const Step& step) {
  if (step.write != nullptr) StartWrite(&step.write->reply);
  if (step.read != nullptr) StartRead(&step.read->request);
  if (step.finish) Finish(step.cancelled ? grpc::Status::CANCELLED : grpc::Status::OK);
}

}  // namespace attention::server
