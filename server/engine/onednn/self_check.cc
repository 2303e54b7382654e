#include "server/engine/onednn/self_check.h"

#include <spdlog/spdlog.h>

#include <cmath>
#include <limits>
#include <new>
#include <oneapi/dnnl/dnnl.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/engine/kernels/buffer.h"

namespace attention::server {
namespace {

// Far above the rounding of float32, far below that of bfloat16.
constexpr double kTolerance = 1e-4;

// Numbers between −1 and 1, most of which bfloat16 has to round; the same at each call.
std::vector<float> SomeNumbers(int64_t count, uint32_t seed) {
  std::vector<float> numbers(count);
  for (float& number : numbers) {
    seed = seed * 1664525 + 1013904223;
    number = static_cast<float>(seed >> 8) * 0x1p-23f - 1.0f;
  }
  return numbers;
}

// The numbers as a product with these operands uses them.
std::vector<float> Rounded(DType operands, std::vector<float> numbers) {
  if (operands == DType::kFloat32) return numbers;
  const auto count = static_cast<int64_t>(numbers.size());
  std::vector<std::byte> narrow(count * DTypeSize(operands));
  FromFloat32(numbers.data(), count, operands, narrow.data());
  ToFloat32(operands, narrow.data(), count, numbers.data());
  return numbers;
}

absl::Status Compare(const std::string& what, const std::vector<double>& expected, const std::vector<float>& actual) {
  for (size_t i = 0; i < expected.size(); ++i) {
    // In this form NaN is wrong, too.
    if (std::abs(actual[i] - expected[i]) <= kTolerance * (1 + std::abs(expected[i]))) continue;
    return absl::InternalError(
        absl::StrCat(what, ", element ", i, ": expected ", expected[i], ", got ", static_cast<double>(actual[i])));
  }
  return absl::OkStatus();
}

std::string Describe(const MatmulShape& shape) {
  const bool is_packed = shape.weights == WeightsLayout::kPacked;
  return absl::StrCat(std::string(DTypeName(shape.operands)), " product ", shape.m, " x ", shape.k, " x ", shape.n,
                      is_packed                                ? " of packed"
                      : shape.weights == WeightsLayout::kPlain ? " of plain"
                                                               : " of transposed",
                      " weights", shape.with_bias ? " with bias" : "", shape.accumulate ? " added to the result" : "",
                      shape.exponential ? " with exponential" : "");
}

absl::Status CheckShape(const MatmulShape& shape, CheckedMatmul matmul) {
  const std::vector<float> src = SomeNumbers(shape.m * shape.k, 1), weights = SomeNumbers(shape.k * shape.n, 2);
  const std::vector<float> bias = SomeNumbers(shape.n, 3);
  std::vector<float> dst = SomeNumbers(shape.m * shape.n, 4);
  const std::vector<float> a = Rounded(shape.operands, src), b = Rounded(shape.operands, weights);
  std::vector<double> expected;
  for (int64_t row = 0; row < shape.m; ++row) {
    for (int64_t column = 0; column < shape.n; ++column) {
      double sum = shape.with_bias ? bias[column] : 0;
      for (int64_t i = 0; i < shape.k; ++i) sum += double{a[row * shape.k + i]} * double{b[i * shape.n + column]};
      if (shape.accumulate) sum += dst[expected.size()];
      expected.push_back(shape.exponential ? std::exp(sum) : sum);
    }
  }
  matmul(shape, src.data(), weights.data(), shape.with_bias ? bias.data() : nullptr, dst.data());
  return Compare(Describe(shape), expected, dst);
}

// Odd and even k, k and n on both sides of what fills a register or a block.
std::vector<MatmulShape> CheckedShapes() {
  constexpr auto kTransposed = WeightsLayout::kTransposed, kPlain = WeightsLayout::kPlain;
  return {{.m = 4, .k = 5, .n = 7, .with_bias = true},
          {.m = 4, .k = 6, .n = 16, .with_bias = true},
          {.m = 8, .k = 33, .n = 65},
          {.m = 8, .k = 64, .n = 64},
          // Scores, whose k is head_dim + 1.
          {.m = 4, .k = 5, .n = 48, .weights = kTransposed, .exponential = true},
          {.m = 4, .k = 6, .n = 48, .weights = kTransposed, .exponential = true},
          {.m = 4, .k = 65, .n = 48, .weights = kTransposed},
          // Context.
          {.m = 4, .k = 48, .n = 4, .weights = kPlain},
          {.m = 4, .k = 48, .n = 5, .weights = kPlain, .accumulate = true},
          {.m = 4, .k = 48, .n = 64, .weights = kPlain, .accumulate = true}};
}

Buffer PackedWeights(Onednn& onednn, int64_t k, int64_t n, DType operands, const float* weights) {
  constexpr int64_t kFloatBytes = sizeof(float);
  Buffer packed((onednn.PackedBytes(k, n, operands) + kFloatBytes - 1) / kFloatBytes);
  onednn.Pack(k, n, operands, weights, packed.data());
  return packed;
}

// Computes the product by oneDNN, in the way that the engine does.
void Multiply(Onednn& onednn, const MatmulShape& shape, const float* src, const float* weights, const float* bias,
              float* dst) {
  const int64_t count = shape.k * shape.n;
  std::vector<float> transposed;
  if (shape.weights == WeightsLayout::kTransposed) {
    for (int64_t i = 0; i < count; ++i) transposed.push_back(weights[i % shape.k * shape.n + i / shape.k]);
    weights = transposed.data();
  }
  Buffer src_operand, weights_operand;
  const void* operand = nullptr;
  if (shape.weights == WeightsLayout::kPacked) {
    weights_operand = PackedWeights(onednn, shape.k, shape.n, shape.operands, weights);
    operand = weights_operand.data();
  } else {
    operand = onednn.Operand(shape.operands, count, weights, weights_operand);
  }
  onednn.Matmul(shape, onednn.Operand(shape.operands, shape.m * shape.k, src, src_operand), operand, bias, dst);
}

absl::Status CheckUnpacking(Onednn& onednn) {
  constexpr int64_t kRows = 33, kColumns = 65;
  const std::vector<float> weights = SomeNumbers(kRows * kColumns, 7);
  std::vector<float> unpacked(weights.size());
  const Buffer packed = PackedWeights(onednn, kRows, kColumns, DType::kFloat32, weights.data());
  onednn.Unpack(kRows, kColumns, packed.data(), unpacked.data());
  return Compare("unpacked weights", {weights.begin(), weights.end()}, unpacked);
}

// An error of oneDNN makes a check fail. Running out of memory does not: it says nothing about the kernels.
absl::Status ErrorStatus(const std::string& what, const dnnl::error& error) {
  if (error.status == dnnl_out_of_memory) throw std::bad_alloc();
  return absl::InternalError(absl::StrCat(what, ": ", error.what()));
}

absl::Status CheckProducts(DType operands) {
  try {
    Onednn onednn(Onednn::BFloat16::kNative);
    return CheckMatmul(operands, [&](const auto&... arguments) { Multiply(onednn, arguments...); });
  } catch (const dnnl::error& error) {
    return ErrorStatus(absl::StrCat(std::string(DTypeName(operands)), " product"), error);
  }
}

absl::Status CheckFloat32() {
  try {
    Onednn onednn(Onednn::BFloat16::kNative);
    const auto softmax = [&](int64_t rows, int64_t columns, float* scores) { onednn.Softmax(rows, columns, scores); };
    if (absl::Status status = CheckSoftmax(softmax); !status.ok()) return status;
    const auto tanh = [&](int64_t rows, int64_t columns, float* numbers) {
      const std::vector<float> src(numbers, numbers + rows * columns);
      onednn.Tanh(rows, columns, src.data(), numbers);
    };
    if (absl::Status status = CheckTanh(tanh); !status.ok()) return status;
    if (absl::Status status = CheckUnpacking(onednn); !status.ok()) return status;
  } catch (const dnnl::error& error) {
    return ErrorStatus("softmax, tanh or unpacking", error);
  }
  return CheckProducts(DType::kFloat32);
}

std::string Version() {
  const dnnl::version_t& version = *dnnl::version();
  return absl::StrCat("oneDNN ", version.major, ".", version.minor, ".", version.patch);
}

SelfCheck CheckAll() {
  SelfCheck check{.float32 = CheckFloat32(), .bfloat16 = CheckProducts(DType::kBFloat16)};
  for (absl::Status* status : {&check.float32, &check.bfloat16}) {
    if (status->ok()) continue;
    *status = absl::InternalError(
        absl::StrCat(Version(), " computes wrong numbers on this CPU: ", std::string(status->message())));
    spdlog::error("{}", std::string(status->message()));
  }
  if (!check.bfloat16.ok()) spdlog::error("bfloat16 numbers are multiplied as float32 instead, which is slower");
  return check;
}

}  // namespace

absl::Status CheckMatmul(DType operands, CheckedMatmul matmul) {
  for (MatmulShape shape : CheckedShapes()) {
    shape.operands = operands;
    if (absl::Status status = CheckShape(shape, matmul); !status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status CheckSoftmax(CheckedRows softmax) {
  constexpr int64_t kRows = 4, kColumns = 48;
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  std::vector<float> scores = SomeNumbers(kRows * kColumns, 5);
  for (int64_t i = 0; i < kRows * kColumns; ++i) {
    // Row 0 sees all keys. In each further row three more are hidden, by a score of −∞.
    scores[i] = i % kColumns < kColumns - 3 * (i / kColumns) ? 8 * scores[i] : -kInfinity;
  }
  std::vector<double> expected(scores.begin(), scores.end());
  for (int64_t row = 0; row < kRows; ++row) {
    double sum = 0;
    for (int64_t i = row * kColumns; i < (row + 1) * kColumns; ++i) sum += expected[i] = std::exp(expected[i]);
    for (int64_t i = row * kColumns; i < (row + 1) * kColumns; ++i) expected[i] /= sum;
  }
  softmax(kRows, kColumns, scores.data());
  return Compare("softmax", expected, scores);
}

absl::Status CheckTanh(CheckedRows tanh) {
  constexpr int64_t kRows = 4, kColumns = 16;
  std::vector<float> numbers = SomeNumbers(kRows * kColumns, 6);
  for (float& number : numbers) number *= 4;
  std::vector<double> expected(numbers.begin(), numbers.end());
  for (double& number : expected) number = std::tanh(number);
  tanh(kRows, kColumns, numbers.data());
  return Compare("tanh", expected, numbers);
}

const SelfCheck& CheckedKernels() {
  static const SelfCheck check = CheckAll();
  return check;
}

}  // namespace attention::server
