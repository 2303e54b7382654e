#include "client/cli/latency_statistics.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace attention::cli {

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
  // 99.9 % of 1000 is a little more than 999 in binary; that must not be the next rank.
  constexpr double kRounding = 1e-9;
  const double rank = std::ceil(percent / 100 * static_cast<double>(sorted.size()) - kRounding);
  const int64_t index = static_cast<int64_t>(rank) - 1;
  return sorted[std::clamp<int64_t>(index, 0, static_cast<int64_t>(sorted.size()) - 1)];
}

}  // namespace attention::cli
