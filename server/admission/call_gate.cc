#include "server/admission/call_gate.h"

namespace attention::server {

std::optional<CallGate::Pass> CallGate::Enter() {
  absl::MutexLock lock(&mu_);
  if (closed_) return std::nullopt;
  ++inside_;
  return Pass(this);
}

bool CallGate::CloseAndWait(absl::Time deadline) {
  absl::MutexLock lock(&mu_);
  closed_ = true;
  return mu_.AwaitWithDeadline(absl::Condition(this, &CallGate::empty), deadline);
}

void CallGate::Leave() {
  absl::MutexLock lock(&mu_);
  --inside_;
}

}  // namespace attention::server
