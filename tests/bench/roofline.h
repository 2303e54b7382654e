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

// What the machine can do a second, all threads of a roofline together.
struct Rates {
  double float32_flops = 0;
  double bfloat16_flops = 0;
  double softmax_elements = 0;

  // Of a matmul with operands of this type.
  double Peak(server::DType operands) const;
};

// Of each rate for itself. REQUIRES: there are some.
Rates MedianRates(absl::Span<const Rates> rates);

// Matmul and softmax at their rates, with nothing lost between them.
double IdealSeconds(const Work& work, server::DType operands, const Rates& rates);

// src[height, size] · weights[size, size]
struct SquareMatmul {
  int64_t height = 0;
  int64_t size = 0;
};

// Measures oneDNN itself: each thread runs a primitive of its own on memory of its own, all at the same time, so the
// clock and the memory that they share count. The matmul has the weights in the layout that oneDNN likes best, and the
// sizes at which it is fastest with them.
class Roofline {
 public:
  // Finds the best sizes. `min_seconds` is the time of one measurement of a primitive.
  static absl::StatusOr<std::unique_ptr<Roofline>> Create(int threads, double min_seconds);

  int threads() const { return threads_; }
  const SquareMatmul& best_matmul(server::DType operands) const { return best_matmuls_.at(operands); }

  absl::Status Measure();

  // One a call of Measure.
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
