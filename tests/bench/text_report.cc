#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "tests/bench/median.h"
#include "tests/bench/report.h"
#include "tests/bench/summary.h"

namespace attention::bench {
namespace {

using server::DType;

// "254 GFLOP/s (231 to 256)": the median, and what the machine's other work makes of it.
std::string Spread(const std::vector<double>& values, int digits) {
  const auto [least, most] = std::minmax_element(values.begin(), values.end());
  const auto print = [&](double value) { return absl::StrFormat("%.*f", digits, value); };
  return absl::StrCat(print(Median(values)), " (", print(*least), " to ", print(*most), ")");
}

std::string RooflineText(const Roofline& roofline) {
  const auto rates = [&](auto value) {
    std::vector<double> values;
    for (const Rates& measured : roofline.measured()) values.push_back(value(measured));
    return values;
  };
  std::string text =
      absl::StrCat("roofline, ", roofline.threads(), roofline.threads() == 1 ? " thread: " : " threads: ");
  for (const DType operands : {DType::kFloat32, DType::kBFloat16}) {
    const auto gigaflops = rates([&](const Rates& r) { return r.Peak(operands) * 1e-9; });
    const auto [height, size] = roofline.best_matmul(operands);
    absl::StrAppend(&text, DTypeName(operands), " ", Spread(gigaflops, 0), " GFLOP/s at ", height, "x", size, "x", size,
                    ", ");
  }
  const auto nanoseconds = rates([&](const Rates& r) { return roofline.threads() * 1e9 / r.softmax_elements; });
  absl::StrAppend(&text, "softmax ", Spread(nanoseconds, 3), " ns an element and thread\n");
  return text;
}

std::string TableLine(const Case& c) {
  const Summary summary = Summarize(c);
  const std::string dtype(DTypeName(c.compute_dtype));
  return absl::StrFormat("%-24s %-8s %7d %9.3f %10.3f %9.1f %7.1f%% %10.3f %14.3f\n", c.workload->shape().name, dtype,
                         c.threads, c.work.flops * 1e-9, summary.seconds * 1e3, c.work.flops / summary.seconds * 1e-9,
                         summary.share_of_peak * 1e2, summary.ideal_seconds * 1e3, summary.ratio);
}

}  // namespace

std::string TextReport(absl::Span<const Case> cases, const Rooflines& rooflines) {
  std::string text;
  for (const std::unique_ptr<Roofline>& roofline : rooflines) text += RooflineText(*roofline);
  absl::StrAppend(&text, "medians of ", cases.front().samples.size(), " rounds\n\n");
  absl::StrAppendFormat(&text, "%-24s %-8s %7s %9s %10s %9s %8s %10s %14s\n", "batch x length x ...", "dtype",
                        "threads", "GFLOP", "ms", "GFLOP/s", "of peak", "ideal ms", "ideal/measured");
  std::string small;
  for (const Case& c : cases) (c.work.flops < kFlopsThatCount ? small : text) += TableLine(c);
  if (!small.empty()) absl::StrAppend(&text, "\nbelow 0.1 GFLOP, so mostly overhead:\n", small);
  if (const Case* worst = WorstCase(cases); worst != nullptr) {
    absl::StrAppendFormat(&text, "\nworst ratio %.3f at %s\n", Summarize(*worst).ratio, CaseName(*worst));
  }
  return text;
}

}  // namespace attention::bench
