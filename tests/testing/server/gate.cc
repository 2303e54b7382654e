#include "tests/testing/server/gate.h"

#include <utility>

namespace attention::test {

server::ComputeFn Gate::Before(server::ComputeFn compute) {
  return [this, compute = std::move(compute)](const server::WeightSet& weight_set,
                                              absl::Span<const server::AttentionCall* const> calls) {
    Pass();
    return compute(weight_set, calls);
  };
}

void Gate::Close() {
  absl::MutexLock lock(&mu_);
  open_ = false;
}

void Gate::Open() {
  absl::MutexLock lock(&mu_);
  open_ = true;
}

void Gate::AwaitHeld(int batches) {
  absl::MutexLock lock(&mu_);
  const auto enough = [this, batches]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) { return held_ >= batches; };
  mu_.Await(absl::Condition(&enough));
}

int Gate::batches() const {
  absl::MutexLock lock(&mu_);
  return batches_;
}

void Gate::Pass() {
  absl::MutexLock lock(&mu_);
  ++batches_;
  ++held_;
  mu_.Await(absl::Condition(&open_));
  --held_;
}

}  // namespace attention::test
