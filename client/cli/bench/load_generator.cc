#include "client/cli/bench/load_generator.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "absl/synchronization/blocking_counter.h"

namespace attention::cli {
namespace {

// Shared by the slots of a closed loop.
struct ClosedLoop {
  const LoadPlan& plan;
  const SendRequest& send;
  LoadClock& clock;
  LoadRecorder& recorder;
  absl::BlockingCounter running;
  std::atomic<int64_t> sent{0};
  std::atomic<int64_t> counted{0};

  // Counts a request that is due now. False if the plan has ended.
  bool Take(LoadTime now) {
    if (now >= plan.end) return false;
    if (now < plan.measure_start || plan.max_requests == 0) return true;
    return counted.fetch_add(1) < plan.max_requests;
  }
};

// Sends one request after the other. The next one is sent by the later of two events, the return of `send` and the
// reply, so that a reply before the return continues the loop instead of recursing.
class Slot {
 public:
  explicit Slot(ClosedLoop& loop) : loop_(loop) {}

  void Run() {
    do {
      due_ = loop_.clock.Now();
      if (!loop_.Take(due_)) return loop_.running.DecrementCount(), void();
      events_ = 0;
      loop_.recorder.Begin();
      loop_.send(loop_.sent++, [this](const absl::StatusOr<AttendReply>& reply) { OnReply(reply); });
    } while (events_.fetch_add(1) == 1);
  }

 private:
  void OnReply(const absl::StatusOr<AttendReply>& reply) {
    loop_.recorder.End({.due = due_, .sent = due_, .now = loop_.clock.Now()}, reply);
    if (events_.fetch_add(1) == 1) Run();
  }

  ClosedLoop& loop_;
  LoadTime due_;
  std::atomic<int> events_{0};
};

LoadTime DueTime(const LoadPlan& plan, int64_t index) {
  return plan.start + std::chrono::nanoseconds(std::llround(static_cast<double>(index) / plan.rate * 1e9));
}

// Number of requests, starting with `index`, that are due before the end of the plan.
int64_t Remaining(const LoadPlan& plan, int64_t index, int64_t counted) {
  const double until_end = std::chrono::duration<double>(plan.end - plan.start).count();
  const int64_t all = static_cast<int64_t>(std::ceil(until_end * plan.rate)) - index;
  return plan.max_requests > 0 ? std::min(all, plan.max_requests - counted) : all;
}

}  // namespace

void SteadyLoadClock::SleepUntil(LoadTime time) { std::this_thread::sleep_until(time); }

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
  result_.error_latencies.push_back(times.now - times.due);
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

void RunClosedLoop(const LoadPlan& plan, const SendRequest& send, LoadClock& clock, LoadRecorder& recorder) {
  const int slots_count = static_cast<int>(plan.concurrency);
  ClosedLoop loop{plan, send, clock, recorder, absl::BlockingCounter(slots_count)};
  std::vector<std::unique_ptr<Slot>> slots;
  slots.reserve(slots_count);
  for (int i = 0; i < slots_count; ++i) slots.push_back(std::make_unique<Slot>(loop));
  for (const auto& slot : slots) slot->Run();
  loop.running.Wait();
}

void RunOpenLoop(const LoadPlan& plan, const SendRequest& send, LoadClock& clock, LoadRecorder& recorder) {
  int64_t counted = 0;
  for (int64_t index = 0;; ++index) {
    const LoadTime due = DueTime(plan, index);
    if (due >= plan.end || (plan.max_requests > 0 && counted == plan.max_requests)) break;
    clock.SleepUntil(due);
    recorder.WaitForRoom(plan.concurrency);
    const LoadTime sent = clock.Now();
    if (sent >= plan.end) {
      recorder.AddNotSent(Remaining(plan, index, counted));
      break;
    }
    counted += sent >= plan.measure_start;
    recorder.Begin();
    send(index, [&, due, sent](const absl::StatusOr<AttendReply>& reply) {
      recorder.End({.due = due, .sent = sent, .now = clock.Now()}, reply);
    });
  }
  recorder.WaitForRoom(1);
}

}  // namespace attention::cli
