#include "client/cli/bench/load_recorder.h"

#include <algorithm>
#include <utility>

namespace attention::cli {

int64_t LoadResult::requests() const {
  int64_t count = static_cast<int64_t>(samples.size());
  for (const auto& [code, errors_of_code] : errors) count += errors_of_code;
  return count;
}

void LoadRecorder::Begin() {
  absl::MutexLock lock(&mu_);
  ++progress_.in_flight;
}

void LoadRecorder::End(const Times& times, const absl::StatusOr<AttendReply>& reply) {
  absl::MutexLock lock(&mu_);
  --progress_.in_flight;
  ++progress_.requests;
  if (!reply.ok()) ++progress_.errors;
  if (times.sent < measure_start_) return;
  result_.elapsed = std::max<std::chrono::nanoseconds>(result_.elapsed, times.now - measure_start_);
  if (reply.ok()) {
    result_.samples.push_back({times.now - times.due, reply->timing});
    return;
  }
  ++result_.errors[reply.status().code()];
  result_.first_error.Update(reply.status());
}

void LoadRecorder::AddNotSent(int64_t count) {
  absl::MutexLock lock(&mu_);
  result_.not_sent += count;
}

void LoadRecorder::WaitForRoom(int64_t limit) {
  absl::MutexLock lock(&mu_);
  const auto has_room = [this, limit]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) { return progress_.in_flight < limit; };
  mu_.Await(absl::Condition(&has_room));
}

LoadRecorder::Progress LoadRecorder::progress() const {
  absl::MutexLock lock(&mu_);
  return progress_;
}

LoadResult LoadRecorder::TakeResult() {
  absl::MutexLock lock(&mu_);
  return std::exchange(result_, {});
}

}  // namespace attention::cli
