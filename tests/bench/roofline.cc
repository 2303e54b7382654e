#include "tests/bench/roofline.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/runtime/catch_exceptions.h"
#include "tests/bench/median.h"
#include "tests/bench/rate.h"
#include "tests/bench/roofline_primitive.h"

namespace attention::bench {
namespace {

using server::DType;

// Small enough for the caches, large enough that little is lost at the edges.
std::vector<SquareMatmul> Candidates() {
  std::vector<SquareMatmul> candidates;
  for (const int64_t size : {256, 512, 768}) {
    for (const int64_t height : {64, 128, 256, 512}) candidates.push_back({height, size});
  }
  return candidates;
}

constexpr int64_t kSoftmaxRows = 64;
constexpr int64_t kSoftmaxColumns = 512;

constexpr char kWhat[] = "measuring oneDNN";

// One primitive for each thread.
absl::Status Register(Job job, const std::function<RooflinePrimitive()>& make) {
  std::vector<RooflinePrimitive> primitives;
  const absl::Status status = server::CatchExceptions(kWhat, [&] {
    for (int thread = 0; thread < job.threads; ++thread) primitives.push_back(make());
    return absl::OkStatus();
  });
  if (!status.ok()) return status;
  job.run = [primitives](int thread) mutable {
    return server::CatchExceptions(kWhat, [&] {
      primitives[thread].Run();
      return absl::OkStatus();
    });
  };
  RegisterJob(job);
  return absl::OkStatus();
}

}  // namespace

double Rates::Peak(DType operands) const { return operands == DType::kBFloat16 ? bfloat16_flops : float32_flops; }

Rates MedianRates(absl::Span<const Rates> rates) {
  const auto median_of = [&](double Rates::*member) {
    std::vector<double> values;
    for (const Rates& each : rates) values.push_back(each.*member);
    return Median(std::move(values));
  };
  return {median_of(&Rates::float32_flops), median_of(&Rates::bfloat16_flops), median_of(&Rates::softmax_elements)};
}

double IdealSeconds(const Work& work, DType operands, const Rates& rates) {
  return work.flops / rates.Peak(operands) + work.softmax_elements / rates.softmax_elements;
}

std::string Roofline::MatmulName(DType operands, const SquareMatmul& matmul) const {
  return absl::StrCat("matmul ", DTypeName(operands), " ", matmul.height, "x", matmul.size, " on ", threads_,
                      " threads");
}

std::string Roofline::SoftmaxName() const { return absl::StrCat("softmax on ", threads_, " threads"); }

absl::StatusOr<std::unique_ptr<Roofline>> Roofline::Create(int threads, double min_seconds) {
  std::unique_ptr<Roofline> roofline(new Roofline(threads));
  for (const DType operands : {DType::kFloat32, DType::kBFloat16}) {
    if (absl::Status status = roofline->FindBestMatmul(operands, min_seconds); !status.ok()) return status;
  }
  const Job softmax = {.name = roofline->SoftmaxName(),
                       .work = kSoftmaxRows * kSoftmaxColumns,
                       .min_seconds = min_seconds,
                       .threads = threads,
                       .run = nullptr};
  const absl::Status status =
      Register(softmax, [] { return RooflinePrimitive::Softmax(kSoftmaxRows, kSoftmaxColumns); });
  if (!status.ok()) return status;
  return roofline;
}

absl::Status Roofline::FindBestMatmul(DType operands, double min_seconds) {
  for (const SquareMatmul& candidate : Candidates()) {
    const auto [height, size] = candidate;
    const Job job = {.name = MatmulName(operands, candidate),
                     .work = 2.0 * static_cast<double>(height * size * size),
                     .min_seconds = min_seconds,
                     .threads = threads_,
                     .run = nullptr};
    const absl::Status status =
        Register(job, [&] { return RooflinePrimitive::Matmul(operands, candidate.height, candidate.size); });
    if (!status.ok()) return status;
  }
  double best = 0;
  constexpr int kTries = 3;  // in turn, so that a disturbance does not decide
  for (int i = 0; i < kTries; ++i) {
    for (const SquareMatmul& candidate : Candidates()) {
      const absl::StatusOr<double> rate = MeasureRate(MatmulName(operands, candidate));
      if (!rate.ok()) return rate.status();
      if (*rate > best) best_matmuls_[operands] = candidate;
      best = std::max(best, *rate);
    }
  }
  return absl::OkStatus();
}

absl::Status Roofline::Measure() {
  Rates rates;
  const std::pair<double*, std::string> jobs[] = {
      {&rates.float32_flops, MatmulName(DType::kFloat32, best_matmul(DType::kFloat32))},
      {&rates.bfloat16_flops, MatmulName(DType::kBFloat16, best_matmul(DType::kBFloat16))},
      {&rates.softmax_elements, SoftmaxName()}};
  for (const auto& [to, name] : jobs) {
    const absl::StatusOr<double> rate = MeasureRate(name);
    if (!rate.ok()) return rate.status();
    *to = *rate;
  }
  measured_.push_back(rates);
  return absl::OkStatus();
}

}  // namespace attention::bench
