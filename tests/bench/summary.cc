#include "tests/bench/summary.h"

#include <utility>
#include <vector>

#include "tests/bench/median.h"

namespace attention::bench {
namespace {

template <typename Value>
double MedianOf(const Case& c, Value value) {
  std::vector<double> values;
  for (const Sample& sample : c.samples) values.push_back(value(sample));
  return Median(std::move(values));
}

}  // namespace

Summary Summarize(const Case& c) {
  return {.seconds = MedianOf(c, [](const Sample& s) { return s.seconds; }),
          .ideal_seconds = MedianOf(c, [](const Sample& s) { return s.ideal_seconds; }),
          .share_of_peak = MedianOf(c, [&](const Sample& s) { return c.work.flops / s.seconds / s.peak; }),
          .ratio = MedianOf(c, [](const Sample& s) { return s.ideal_seconds / s.seconds; })};
}

const Case* WorstCase(absl::Span<const Case> cases) {
  const Case* worst = nullptr;
  for (const Case& c : cases) {
    if (c.work.flops < kFlopsThatCount) continue;
    if (worst == nullptr || Summarize(c).ratio < Summarize(*worst).ratio) worst = &c;
  }
  return worst;
}

}  // namespace attention::bench
