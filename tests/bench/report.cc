#include "tests/bench/report.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "tests/bench/rate.h"

namespace attention::bench {
namespace {

using Json = nlohmann::ordered_json;
using server::DType;

// Medians over the rounds of a case. The median of a quotient is that of the quotients of each round.
struct Summary {
  double seconds = 0;
  double ideal_seconds = 0;
  double share_of_peak = 0;
  double ratio = 0;  // ideal to measured time
};

constexpr double kMinFlopsOfWorst = 1e8;

template <typename Value>
double MedianOf(const Case& c, Value value) {
  std::vector<double> values;
  for (const Sample& sample : c.samples) values.push_back(value(sample));
  return Median(std::move(values));
}

Summary Summarize(const Case& c) {
  return {.seconds = MedianOf(c, [](const Sample& s) { return s.seconds; }),
          .ideal_seconds = MedianOf(c, [](const Sample& s) { return s.ideal_seconds; }),
          .share_of_peak = MedianOf(c, [&](const Sample& s) { return c.work.flops / s.seconds / s.peak; }),
          .ratio = MedianOf(c, [](const Sample& s) { return s.ideal_seconds / s.seconds; })};
}

// The case with the lowest ratio among those with enough work; null if there is none.
const Case* WorstCase(absl::Span<const Case> cases) {
  const Case* worst = nullptr;
  for (const Case& c : cases) {
    if (c.work.flops < kMinFlopsOfWorst) continue;
    if (worst == nullptr || Summarize(c).ratio < Summarize(*worst).ratio) worst = &c;
  }
  return worst;
}

Json MatmulJson(const SquareMatmul& matmul) { return {{"m", matmul.height}, {"k", matmul.size}, {"n", matmul.size}}; }

Json RooflineJson(const Roofline& roofline) {
  Json measured = Json::array();
  for (const Rates& rates : roofline.measured()) {
    measured.push_back({{"float32_flops", rates.float32_flops},
                        {"bfloat16_flops", rates.bfloat16_flops},
                        {"softmax_elements", rates.softmax_elements}});
  }
  return {{"threads", roofline.threads()},
          {"float32_matmul", MatmulJson(roofline.best_matmul(DType::kFloat32))},
          {"bfloat16_matmul", MatmulJson(roofline.best_matmul(DType::kBFloat16))},
          {"measured", std::move(measured)}};
}

Json CaseJson(const Case& c) {
  const Summary summary = Summarize(c);
  Json rounds = Json::array();
  for (const Sample& sample : c.samples) {
    rounds.push_back({{"seconds", sample.seconds}, {"ideal_seconds", sample.ideal_seconds}, {"peak", sample.peak}});
  }
  return {{"shape", c.workload->shape().name},
          {"dtype", std::string(DTypeName(c.compute_dtype))},
          {"threads", c.threads},
          {"flops", c.work.flops},
          {"softmax_elements", c.work.softmax_elements},
          {"seconds", summary.seconds},
          {"flops_per_second", c.work.flops / summary.seconds},
          {"share_of_peak", summary.share_of_peak},
          {"ideal_seconds", summary.ideal_seconds},
          {"ratio", summary.ratio},
          {"rounds", std::move(rounds)}};
}

// "254 (231 to 256)": median, minimum and maximum.
std::string Spread(const std::vector<double>& values, int digits) {
  const auto [min, max] = std::minmax_element(values.begin(), values.end());
  const auto print = [&](double value) { return absl::StrFormat("%.*f", digits, value); };
  return absl::StrCat(print(Median(values)), " (", print(*min), " to ", print(*max), ")");
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
  absl::StrAppend(&text, "softmax ", Spread(nanoseconds, 3), " ns per element and thread\n");
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
  for (const Case& c : cases) (c.work.flops < kMinFlopsOfWorst ? small : text) += TableLine(c);
  if (!small.empty()) absl::StrAppend(&text, "\nbelow 0.1 GFLOP, mostly overhead:\n", small);
  if (const Case* worst = WorstCase(cases); worst != nullptr) {
    absl::StrAppendFormat(&text, "\nworst ratio %.3f at %s\n", Summarize(*worst).ratio, CaseName(*worst));
  }
  return text;
}

Json JsonReport(absl::Span<const Case> cases, const Rooflines& rooflines) {
  Json report = {{"rooflines", Json::array()}, {"cases", Json::array()}, {"worst", nullptr}};
  for (const std::unique_ptr<Roofline>& roofline : rooflines) report["rooflines"].push_back(RooflineJson(*roofline));
  for (const Case& c : cases) report["cases"].push_back(CaseJson(c));
  if (const Case* worst = WorstCase(cases); worst != nullptr) {
    report["worst"] = {{"case", CaseName(*worst)}, {"ratio", Summarize(*worst).ratio}};
  }
  return report;
}

}  // namespace attention::bench
