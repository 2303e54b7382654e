#include "server/admission/admission.h"

#include "absl/strings/str_cat.h"

namespace attention::server {

Ticket::~Ticket() {
  if (admission_ != nullptr) admission_->Leave(bytes_);
}

absl::Status Ticket::Reserve(int64_t bytes) {
  absl::Status status = admission_->Reserve(bytes_, bytes);
  if (status.ok()) bytes_ += bytes;
  return status;
}

absl::StatusOr<Ticket> Admission::Enter(int64_t message_bytes) {
  {
    absl::MutexLock lock(&mu_);
    if (closed_) return StoppingError();
    ++calls_;
  }
  Ticket ticket(this);
  if (absl::Status status = ticket.Reserve(message_bytes); !status.ok()) return status;
  return ticket;
}

absl::Status Admission::Reserve(int64_t held, int64_t bytes) {
  if (bytes > max_bytes_ - held) {
    return absl::ResourceExhaustedError(absl::StrCat("request: expected at most ", max_bytes_,
                                                     " bytes of memory (--max-inflight-bytes), got ", held, " and ",
                                                     bytes, " more"));
  }
  int64_t used = bytes_.load(std::memory_order_relaxed);
  do {
    if (bytes > max_bytes_ - used) {
      return absl::UnavailableError(absl::StrCat("server: expected at most ", max_bytes_,
                                                 " bytes in flight (--max-inflight-bytes), got ", used, " and ", bytes,
                                                 " of this request"));
    }
  } while (!bytes_.compare_exchange_weak(used, used + bytes, std::memory_order_relaxed));
  return absl::OkStatus();
}

void Admission::Leave(int64_t bytes) {
  bytes_.fetch_sub(bytes, std::memory_order_relaxed);
  absl::MutexLock lock(&mu_);
  --calls_;
}

bool Admission::CloseAndWait(absl::Duration timeout) {
  absl::MutexLock lock(&mu_);
  closed_ = true;
  return mu_.AwaitWithTimeout(absl::Condition(this, &Admission::idle), timeout);
}

Admission::Stats Admission::stats() const {
  absl::MutexLock lock(&mu_);
  return {calls_, bytes_.load(std::memory_order_relaxed)};
}

}  // namespace attention::server
