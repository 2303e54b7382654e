#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "server/checkpoint/tensor.h"
#include "tests/bench/shapes.h"

namespace attention::bench {

// Rates of the machine per second, summed over the threads of a roofline.
struct Rates {
  double float32_flops = 0;
  double bfloat16_flops = 0;
  double softmax_elements = 0;

  // The rate of a matmul with operands of this type.
  double Peak(server::DType operands) const;
};

// The median of each rate. REQUIRES: `rates` is not empty.
Rates MedianRates(absl::Span<const Rates> rates);

// The time of the work if matmul and softmax run at their rates and nothing else takes time.
double IdealSeconds(const Work& work, server::DType operands, const Rates& rates);

// src[height, size] · weights[size, size]
struct SquareMatmul {
  int64_t height = 0;
  int64_t size = 0;
};

// Measures oneDNN itself. Each thread runs its own primitive on its own memory. All run at the same time, so the rates
// include the effects of shared clock and memory bandwidth. The matmul has its weights in the layout that oneDNN
// chooses and the sizes at which it is fastest.
class Roofline {
 public:
  // Finds the fastest sizes. `min_seconds` is the time of one measurement of a primitive.
  static absl::StatusOr<std::unique_ptr<Roofline>> Create(int threads, double min_seconds);

  int threads() const { return threads_; }
  const SquareMatmul& best_matmul(server::DType operands) const { return best_matmuls_.at(operands); }

  absl::Status Measure();

  // One entry per call of Measure.
  const std::vector<Rates>& measured() const { return measured_; }

 private:
  explicit Roofline(int threads) : threads_(threads) {}

  absl::Status FindBestMatmul(server::DType operands, double min_seconds);
  std::string MatmulName(server::DType operands, const SquareMatmul& matmul) const;
  std::string SoftmaxName() const;

  const int threads_;
  std::map<server::DType, SquareMatmul> best_matmuls_;
  std::vector<Rates> measured_;
};

}  // namespace attention::bench
