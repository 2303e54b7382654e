#include "server/batching/load_estimate.h"

#include <algorithm>
#include <cmath>

namespace attention::server {
namespace {

// After this much computation an old rate has lost most of its weight.
constexpr double kMemorySeconds = 0.2;

}  // namespace

int64_t LoadEstimate::Started(double cost, absl::Time now) {
  running_.push_back({++last_id_, cost, now});
  return last_id_;
}

void LoadEstimate::Finished(int64_t id, double computed_cost, absl::Time now) {
  const auto batch =
      std::find_if(running_.begin(), running_.end(), [&](const Running& running) { return running.id == id; });
  const double seconds = absl::ToDoubleSeconds(now - batch->start);
  running_.erase(batch);
  if (computed_cost <= 0 || seconds <= 0) return;
  const double weight = seconds_per_cost_ == 0 ? 1 : 1 - std::exp(-seconds / kMemorySeconds);
  seconds_per_cost_ += weight * (seconds / computed_cost - seconds_per_cost_);
}

absl::Duration LoadEstimate::Remaining(absl::Time now) const {
  absl::Duration remaining = absl::ZeroDuration();
  for (const Running& running : running_) {
    remaining += std::max(absl::ZeroDuration(), TimeFor(running.cost) - (now - running.start));
  }
  return remaining;
}

}  // namespace attention::server
