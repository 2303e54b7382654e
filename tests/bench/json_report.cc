#include "tests/bench/report.h"
#include "tests/bench/summary.h"

namespace attention::bench {
namespace {

using Json = nlohmann::ordered_json;
using server::DType;

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

}  // namespace

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
