#include "client/cli/bench/load_generator.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <memory>
#include <thread>
#include <vector>

#include "absl/synchronization/blocking_counter.h"

namespace attention::cli {
namespace {

// What all the slots of a closed loop share.
struct ClosedLoop {
  const LoadPlan& plan;
  const SendRequest& send;
  LoadClock& clock;
  LoadRecorder& recorder;
  absl::BlockingCounter running;
  std::atomic<int64_t> sent{0};
  std::atomic<int64_t> counted{0};

  // Takes a number for a request that would be due now, unless the plan has ended.
  bool Take(LoadTime now) {
    if (now >= plan.end) return false;
    if (now < plan.measure_start || plan.max_requests == 0) return true;
    return counted.fetch_add(1) < plan.max_requests;
  }
};

// One request after the other. The next one is sent by whichever comes last: the return of `send`, or the reply. So a
// reply that is there before `send` returns makes the loop go round instead of calling itself ever deeper.
class Slot {
 public:
  explicit Slot(ClosedLoop& loop) : loop_(loop) {}

  void Run() {
    do {
      due_ = loop_.clock.Now();
      if (!loop_.Take(due_)) return loop_.running.DecrementCount(), void();
      arrived_ = 0;
      loop_.recorder.Begin();
      loop_.send(loop_.sent++, [this](const absl::StatusOr<AttendReply>& reply) { OnReply(reply); });
    } while (arrived_.fetch_add(1) == 1);
  }

 private:
  void OnReply(const absl::StatusOr<AttendReply>& reply) {
    loop_.recorder.End({.due = due_, .sent = due_, .now = loop_.clock.Now()}, reply);
    if (arrived_.fetch_add(1) == 1) Run();
  }

  ClosedLoop& loop_;
  LoadTime due_;
  std::atomic<int> arrived_{0};
};

LoadTime DueTime(const LoadPlan& plan, int64_t index) {
  return plan.start + std::chrono::nanoseconds(std::llround(static_cast<double>(index) / plan.rate * 1e9));
}

// How many requests from `index` on are due before the end of the plan.
int64_t Remaining(const LoadPlan& plan, int64_t index, int64_t counted) {
  const double until_end = std::chrono::duration<double>(plan.end - plan.start).count();
  const int64_t all = static_cast<int64_t>(std::ceil(until_end * plan.rate)) - index;
  return plan.max_requests > 0 ? std::min(all, plan.max_requests - counted) : all;
}

}  // namespace

void SteadyLoadClock::SleepUntil(LoadTime time) { std::this_thread::sleep_until(time); }

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
