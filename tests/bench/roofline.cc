#include "tests/bench/roofline.h"

#include <omp.h>

#include <algorithm>
#include <functional>
#include <oneapi/dnnl/dnnl.hpp>
#include <unordered_map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/engine/onednn/descriptors.h"
#include "server/runtime/catch_exceptions.h"
#include "tests/bench/rate.h"

namespace attention::bench {
namespace {

using dnnl::memory;
using server::DType;

// Fills it with bytes that are normal numbers from 0.5 to 1, both as float32 and as bfloat16.
void Fill(const memory& numbers) {
  const size_t bytes = numbers.get_desc().get_size();
  auto* to = static_cast<unsigned char*>(numbers.get_data_handle());
  for (size_t i = 0; i < bytes; ++i) to[i] = i % 2 == 1 ? 0x3f : static_cast<unsigned char>(i * 37 % 127);
}

// A primitive of oneDNN with its own memory. Any thread may run it, one at a time. Every function throws dnnl::error or
// std::bad_alloc.
class RooflinePrimitive {
 public:
  // [height, size] · [size, size] with float32 sums. Uses float32 if oneDNN has no bfloat16, as the engine does.
  static RooflinePrimitive Matmul(DType operands, int64_t height, int64_t size) {
    omp_set_num_threads(1);
    RooflinePrimitive matmul;
    const bool is_bfloat16 = operands == DType::kBFloat16 && server::HasBFloat16();
    const auto type = is_bfloat16 ? memory::data_type::bf16 : memory::data_type::f32;
    const memory::desc weights({size, size}, type, memory::format_tag::any);
    const auto descriptor =
        server::MatmulDescriptor(matmul.engine_, {.m = height, .k = size, .n = size}, type, weights);
    matmul.primitive_ = dnnl::matmul(descriptor);
    matmul.Add(DNNL_ARG_SRC, descriptor.src_desc());
    matmul.Add(DNNL_ARG_WEIGHTS, descriptor.weights_desc());
    matmul.Add(DNNL_ARG_DST, descriptor.dst_desc());
    matmul.Add(DNNL_ARG_SCRATCHPAD, descriptor.scratchpad_desc());
    return matmul;
  }

  // Softmax of each row of [rows, columns], in place.
  static RooflinePrimitive Softmax(int64_t rows, int64_t columns) {
    omp_set_num_threads(1);
    RooflinePrimitive softmax;
    const memory::desc scores = server::RowMajor(rows, columns);
    const auto descriptor = server::SoftmaxDescriptor(softmax.engine_, scores);
    softmax.primitive_ = dnnl::softmax_forward(descriptor);
    softmax.Add(DNNL_ARG_SRC, scores);
    softmax.arguments_.emplace(DNNL_ARG_DST, softmax.arguments_.at(DNNL_ARG_SRC));
    softmax.Add(DNNL_ARG_SCRATCHPAD, descriptor.scratchpad_desc());
    return softmax;
  }

  void Run() {
    omp_set_num_threads(1);
    primitive_.execute(stream_, arguments_);
    stream_.wait();
  }

 private:
  void Add(int argument, const memory::desc& desc) {
    memory numbers(desc, engine_);
    Fill(numbers);
    arguments_.emplace(argument, std::move(numbers));
  }

  dnnl::engine engine_{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream_{engine_};
  dnnl::primitive primitive_;
  std::unordered_map<int, memory> arguments_;
};

// Small enough for the caches, and large enough that incomplete blocks at the edges do not matter.
std::vector<SquareMatmul> Candidates() {
  std::vector<SquareMatmul> candidates;
  for (const int64_t size : {256, 512, 768}) {
    for (const int64_t height : {64, 128, 256, 512}) candidates.push_back({height, size});
  }
  return candidates;
}

constexpr int64_t kSoftmaxRows = 64;
constexpr int64_t kSoftmaxColumns = 512;

constexpr char kActivity[] = "measuring oneDNN";

// Registers the job with one primitive for each thread.
absl::Status Register(Job job, const std::function<RooflinePrimitive()>& make) {
  std::vector<RooflinePrimitive> primitives;
  const absl::Status status = server::CatchExceptions(kActivity, [&] {
    for (int thread = 0; thread < job.threads; ++thread) primitives.push_back(make());
    return absl::OkStatus();
  });
  if (!status.ok()) return status;
  job.run = [primitives](int thread) mutable {
    return server::CatchExceptions(kActivity, [&] {
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
  constexpr int kTries = 3;  // alternating, so that other load on the machine does not decide
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
