#include "client/cli/bench/bench_report.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <nlohmann/json.hpp>
#include <numeric>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/cli/text_format.h"

namespace attention::cli {
namespace {

// The figures of both forms of the report.
struct Figures {
  Distribution latency, queue, compute, errors;
  double mean_batch_requests = 0;
  double requests_per_second = 0;  // only successful ones
  double tokens_per_second = 0;
};

Distribution Summarize(const LoadResult& result, const std::function<std::chrono::nanoseconds(const LoadSample&)>& of) {
  std::vector<int64_t> samples;
  samples.reserve(result.samples.size());
  for (const LoadSample& sample : result.samples) samples.push_back(of(sample).count());
  return cli::Summarize(std::move(samples));
}

Figures Calculate(const BenchOptions& options, const LoadResult& result) {
  Figures figures;
  figures.latency = Summarize(result, [](const LoadSample& sample) { return sample.latency; });
  figures.queue = Summarize(result, [](const LoadSample& sample) { return sample.timing.queue_time; });
  figures.compute = Summarize(result, [](const LoadSample& sample) { return sample.timing.compute_time; });
  std::vector<int64_t> errors;
  for (const std::chrono::nanoseconds latency : result.error_latencies) errors.push_back(latency.count());
  figures.errors = cli::Summarize(std::move(errors));
  const double count = static_cast<double>(result.samples.size());
  for (const LoadSample& sample : result.samples) figures.mean_batch_requests += sample.timing.batch_requests / count;
  const double seconds = std::chrono::duration<double>(result.elapsed).count();
  if (seconds > 0) figures.requests_per_second = count / seconds;
  figures.tokens_per_second = figures.requests_per_second * TokensPerRequest(options);
  return figures;
}

std::string LoadText(const BenchOptions& options) {
  const std::string connections =
      options.connections == 1 ? "" : absl::StrCat(" over ", options.connections, " connections");
  const std::string loop =
      options.rate > 0
          ? absl::StrCat("open loop, ", options.rate, " requests/s, at most ", options.in_flight(), " in flight")
          : absl::StrCat("closed loop, ", CountOf(options.in_flight(), "request"), " in flight");
  return absl::StrCat(ShapeText(options), "; ", loop, connections, "\n");
}

std::string ErrorLines(const LoadResult& result) {
  std::string text;
  for (const auto& [code, count] : result.errors) {
    absl::StrAppend(&text, "  ", absl::StatusCodeToString(code), ": ", count, "\n");
  }
  if (!result.first_error.ok()) absl::StrAppend(&text, "  first error: ", result.first_error.message(), "\n");
  return text;
}

std::vector<std::string> TimeRow(const std::string& name, const Distribution& times) {
  using std::chrono::nanoseconds;
  return {name,
          FormatTime(std::chrono::duration<double, std::nano>(times.mean)),
          FormatTime(nanoseconds(times.p50)),
          FormatTime(nanoseconds(times.p90)),
          FormatTime(nanoseconds(times.p95)),
          FormatTime(nanoseconds(times.p99)),
          FormatTime(nanoseconds(times.p99_9)),
          FormatTime(nanoseconds(times.max))};
}

using Json = nlohmann::ordered_json;

Json ToJson(const Distribution& times) {
  return {{"mean_ns", times.mean}, {"p50_ns", times.p50},     {"p90_ns", times.p90}, {"p95_ns", times.p95},
          {"p99_ns", times.p99},   {"p99_9_ns", times.p99_9}, {"max_ns", times.max}};
}

Json LoadJson(const BenchOptions& options) {
  Json load = {{"weight_set", options.weight_set},
               {"mode", options.rate > 0 ? "open_loop" : "closed_loop"},
               {"concurrency", options.in_flight()},
               {"connections", options.connections},
               {"batch", options.batch},
               {"q_length", options.q_length},
               {"kv_length", options.kv_length ? Json(*options.kv_length) : Json()},
               {"random_lengths", options.random_lengths}};
  if (options.rate > 0) load["rate"] = options.rate;
  return load;
}

}  // namespace

Distribution Summarize(std::vector<int64_t> samples) {
  Distribution result;
  if (samples.empty()) return result;
  std::sort(samples.begin(), samples.end());
  result.count = static_cast<int64_t>(samples.size());
  result.mean = std::accumulate(samples.begin(), samples.end(), 0.0) / static_cast<double>(samples.size());
  result.p50 = Percentile(samples, 50);
  result.p90 = Percentile(samples, 90);
  result.p95 = Percentile(samples, 95);
  result.p99 = Percentile(samples, 99);
  result.p99_9 = Percentile(samples, 99.9);
  result.max = samples.back();
  return result;
}

int64_t Percentile(absl::Span<const int64_t> sorted, double percent) {
  // In binary, 99.9 % of 1000 is slightly more than 999. It must not round up to the next rank.
  constexpr double kRounding = 1e-9;
  const double rank = std::ceil(percent / 100 * static_cast<double>(sorted.size()) - kRounding);
  const int64_t index = static_cast<int64_t>(rank) - 1;
  return sorted[std::clamp<int64_t>(index, 0, static_cast<int64_t>(sorted.size()) - 1)];
}

double TokensPerRequest(const BenchOptions& options) {
  const auto length = [&](int64_t most) {
    return options.random_lengths ? (1 + static_cast<double>(most)) / 2 : static_cast<double>(most);
  };
  const double kv_length = options.kv_length ? length(*options.kv_length) : 0;
  return static_cast<double>(options.batch) * (length(options.q_length) + kv_length);
}

std::string ShapeText(const BenchOptions& options) {
  const char* up_to = options.random_lengths ? "1 to " : "";
  const std::string kv =
      options.kv_length ? absl::StrCat(" × kv_length ", up_to, *options.kv_length) : " (self-attention)";
  return absl::StrCat(options.weight_set, ": batch ", options.batch, " × q_length ", up_to, options.q_length, kv);
}

std::string BenchText(const BenchOptions& options, const LoadResult& result) {
  const Figures figures = Calculate(options, result);
  const int64_t errors = result.requests() - static_cast<int64_t>(result.samples.size());
  std::string text = LoadText(options);
  absl::StrAppend(&text, CountOf(result.requests(), "request"), " in ",
                  absl::StrFormat("%.2f s", std::chrono::duration<double>(result.elapsed).count()), ", ",
                  CountOf(errors, "error"), "\n", ErrorLines(result));
  if (result.not_sent > 0) {
    absl::StrAppend(&text, CountOf(result.not_sent, "more request"),
                    " due but not sent: the server is too slow for this rate with at most ", options.in_flight(),
                    " requests in flight (--concurrency)\n");
  }
  if (result.samples.empty()) return text;
  absl::StrAppend(&text,
                  absl::StrFormat("%.1f requests/s, %.0f tokens/s, mean batch %.2f requests\n\n",
                                  figures.requests_per_second, figures.tokens_per_second, figures.mean_batch_requests));
  return text + FormatTable({{"", "mean", "p50", "p90", "p95", "p99", "p99.9", "max"},
                             TimeRow("latency", figures.latency),
                             TimeRow("server queue", figures.queue),
                             TimeRow("server compute", figures.compute)});
}

std::string BenchJson(const BenchOptions& options, const LoadResult& result) {
  const Figures figures = Calculate(options, result);
  Json errors = Json::object();
  for (const auto& [code, count] : result.errors) errors[absl::StatusCodeToString(code)] = count;
  const Json report = {{"load", LoadJson(options)},
                       {"requests", result.requests()},
                       {"errors", errors},
                       {"not_sent", result.not_sent},
                       {"elapsed_ns", result.elapsed.count()},
                       {"requests_per_second", figures.requests_per_second},
                       {"tokens_per_second", figures.tokens_per_second},
                       {"latency", ToJson(figures.latency)},
                       {"server_queue", ToJson(figures.queue)},
                       {"server_compute", ToJson(figures.compute)},
                       {"error_latency", ToJson(figures.errors)},
                       {"mean_batch_requests", figures.mean_batch_requests}};
  return report.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace attention::cli
