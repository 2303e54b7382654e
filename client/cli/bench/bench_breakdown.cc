#include "client/cli/bench/bench_breakdown.h"

#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/cli/bench/bench_report.h"
#include "client/cli/text_format.h"

namespace attention::cli {
namespace {

using std::chrono::nanoseconds;

// Medians in nanoseconds. Parts that cannot be measured as a call are differences.
struct Parts {
  int64_t empty = 0, refused = 0, request = 0, queue = 0, compute = 0;

  int64_t transfer() const { return refused - empty; }
  int64_t rest() const { return request - refused - queue - compute; }
  double ratio() const { return static_cast<double>(request) / static_cast<double>(empty + compute); }
};

int64_t Median(const std::vector<nanoseconds>& times) {
  std::vector<int64_t> counts;
  counts.reserve(times.size());
  for (nanoseconds time : times) counts.push_back(time.count());
  return Summarize(std::move(counts)).p50;
}

int64_t Median(const std::vector<LoadSample>& samples, nanoseconds (*of)(const LoadSample&)) {
  std::vector<nanoseconds> times;
  times.reserve(samples.size());
  for (const LoadSample& sample : samples) times.push_back(of(sample));
  return Median(times);
}

Parts PartsOf(const BreakdownTimes& times) {
  return {.empty = Median(times.empty),
          .refused = Median(times.refused),
          .request = Median(times.requests, [](const LoadSample& sample) { return sample.latency; }),
          .queue = Median(times.requests, [](const LoadSample& sample) { return sample.timing.queue_time; }),
          .compute = Median(times.requests, [](const LoadSample& sample) { return sample.timing.compute_time; })};
}

// OK if the server refused the call, because there is no such version.
absl::Status CheckRefused(const absl::Status& status) {
  if (absl::IsNotFound(status)) return absl::OkStatus();
  return status.ok() ? absl::InternalError("version: expected the server to refuse an unknown version, got a reply")
                     : status;
}

const absl::Status& StatusOf(const absl::Status& status) { return status; }
const absl::Status& StatusOf(const absl::StatusOr<AttendReply>& reply) { return reply.status(); }

// Duration of a series of calls of one kind.
constexpr std::chrono::milliseconds kTurn(5);

// Repeats `call` for one turn, and passes the times to `record`, except that of the first call: it is affected by what
// ran before, through the caches and the engine's threads.
template <typename Call, typename Record>
absl::Status TakeTurn(LoadClock& clock, const Call& call, const Record& record) {
  const LoadTime end = clock.Now() + kTurn;
  for (int i = 0;; ++i) {
    const LoadTime start = clock.Now();
    auto result = call();
    const LoadTime now = clock.Now();
    if (absl::Status status = StatusOf(result); !status.ok()) return status;
    if (i == 0) continue;
    record(now - start, result);
    if (now >= end) return absl::OkStatus();
  }
}

absl::Status TakeTurns(LoadClock& clock, const BreakdownCalls& calls, BreakdownTimes& times) {
  const auto add_to = [](std::vector<nanoseconds>& to) {
    return [&to](nanoseconds time, const absl::Status&) { to.push_back(time); };
  };
  if (absl::Status status = TakeTurn(clock, calls.empty, add_to(times.empty)); !status.ok()) return status;
  if (absl::Status status = TakeTurn(clock, calls.refused, add_to(times.refused)); !status.ok()) return status;
  return TakeTurn(clock, calls.request, [&](nanoseconds time, const absl::StatusOr<AttendReply>& reply) {
    times.requests.push_back({time, reply->timing});
  });
}

}  // namespace

BreakdownCalls CallsOf(const Client& client, const AttendRequest& request, const CallOptions& options) {
  AttendRequest unserved = request;
  unserved.version = std::numeric_limits<int64_t>::max();
  unserved.alias.clear();
  return {.empty = [=] { return client.CheckHealth("", options); },
          .refused = [=] { return CheckRefused(client.Attend(unserved, options).status()); },
          .request = [=] { return client.Attend(request, options); }};
}

absl::StatusOr<BreakdownTimes> MeasureBreakdown(const LoadPlan& plan, const BreakdownCalls& calls, LoadClock& clock) {
  BreakdownTimes times;
  const auto enough = [&] {
    return plan.max_requests > 0 && static_cast<int64_t>(times.requests.size()) >= plan.max_requests;
  };
  // At least once, regardless of the time.
  for (LoadTime now = clock.Now(); now < plan.end || times.requests.empty(); now = clock.Now()) {
    if (absl::Status status = TakeTurns(clock, calls, times); !status.ok()) return status;
    if (now < plan.measure_start) times = {};
    if (enough()) break;
  }
  return times;
}

std::string BreakdownText(const BenchOptions& options, const BreakdownTimes& times) {
  const Parts parts = PartsOf(times);
  const auto row = [&](const char* name, int64_t time, const char* what) -> std::vector<std::string> {
    return {name, FormatTime(nanoseconds(time)),
            absl::StrFormat("%.0f %%", 100.0 * static_cast<double>(time) / static_cast<double>(parts.request)), what};
  };
  return absl::StrCat(
      ShapeText(options), "; one call at a time, medians of ",
      CountOf(static_cast<int64_t>(times.requests.size()), "request"), "\n\n",
      FormatTable({{"", "p50", "share", ""},
                   row("empty call", parts.empty, "a health check"),
                   row("request transfer", parts.transfer(), "copy, send and parse; measured with a refused request"),
                   row("server queue", parts.queue, "until a thread takes the request"),
                   row("server compute", parts.compute, "the engine"),
                   row("rest", parts.rest(), "validate, allocate and send the reply"),
                   row("whole request", parts.request, "")}),
      absl::StrFormat("\nThe whole request takes %.2f times as long as the empty call and the engine together.\n",
                      parts.ratio()));
}

std::string BreakdownJson(const BenchOptions& options, const BreakdownTimes& times) {
  const Parts parts = PartsOf(times);
  const nlohmann::ordered_json report = {
      {"weight_set", options.weight_set},
      {"batch", options.batch},
      {"q_length", options.q_length},
      {"kv_length", options.kv_length ? nlohmann::ordered_json(*options.kv_length) : nlohmann::ordered_json()},
      {"requests", times.requests.size()},
      {"empty_call_ns", parts.empty},
      {"request_transfer_ns", parts.transfer()},
      {"server_queue_ns", parts.queue},
      {"server_compute_ns", parts.compute},
      {"rest_ns", parts.rest()},
      {"request_ns", parts.request},
      {"request_to_empty_and_compute", parts.ratio()}};
  return report.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace attention::cli
