#include "server/engine/onednn/self_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "server/engine/engine.h"

namespace attention::server {
namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

bool IsOk(const absl::Status& status) { return status.ok(); }

float Rounded(DType operands, float number) {
  if (operands == DType::kFloat32) return number;
  std::byte narrow[2];
  FromFloat32(&number, 1, operands, narrow);
  ToFloat32(operands, narrow, 1, &number);
  return number;
}

// The right product of the first `used_k` rows of the weights.
void MultiplyRows(const MatmulShape& shape, int64_t used_k, DType rounded_to, const float* src, const float* weights,
                  const float* bias, float* dst) {
  for (int64_t row = 0; row < shape.m; ++row) {
    for (int64_t column = 0; column < shape.n; ++column) {
      float& to = dst[row * shape.n + column];
      float sum = shape.accumulate ? to : 0;
      for (int64_t i = 0; i < used_k; ++i) {
        sum += Rounded(rounded_to, src[row * shape.k + i]) * Rounded(rounded_to, weights[i * shape.n + column]);
      }
      if (shape.with_bias) sum += bias[column];
      to = shape.exponential ? std::exp(sum) : sum;
    }
  }
}

void Multiply(const MatmulShape& shape, const float* src, const float* weights, const float* bias, float* dst) {
  MultiplyRows(shape, shape.k, shape.operands, src, weights, bias, dst);
}

TEST(SelfCheckTest, FindsNothingWrongWithRightFunctions) {
  for (const DType operands : {DType::kFloat32, DType::kBFloat16}) EXPECT_PRED1(IsOk, CheckMatmul(operands, Multiply));
}

TEST(SelfCheckTest, FindsNothingWrongWithTheKernelsOfThisMachine) {
  EXPECT_PRED1(IsOk, CheckedKernels().float32);
  EXPECT_PRED1(IsOk, CheckedKernels().bfloat16);
  EXPECT_TRUE(Engine::Create(1).ok());
}

using Matmul = std::function<void(const MatmulShape&, const float*, const float*, const float*, float*)>;

struct Fault {
  std::string name;
  Matmul matmul;
};

void PrintTo(const Fault& fault, std::ostream* out) { *out << fault.name; }

// Right, except that `spoil` changes the products of the shapes that are `is_spoilt`.
Matmul Spoilt(const std::function<bool(const MatmulShape&)>& is_spoilt,
              const std::function<void(const MatmulShape&, float* dst)>& spoil) {
  return [=](const MatmulShape& shape, const float* src, const float* weights, const float* bias, float* dst) {
    Multiply(shape, src, weights, bias, dst);
    if (is_spoilt(shape)) spoil(shape, dst);
  };
}

std::vector<Fault> Faults() {
  const auto is_any = [](const MatmulShape&) { return true; };
  const auto last = [](const MatmulShape& shape, float* dst) -> float& { return dst[shape.m * shape.n - 1]; };
  const auto as = [](MatmulShape other, const auto&... arguments) { Multiply(other, arguments...); };
  return {
      // As oneDNN 3.7.2 packs bfloat16.
      {"OddK",
       [](const MatmulShape& shape, const auto&... arguments) {
         const bool is_odd = shape.weights == WeightsLayout::kPacked && shape.k % 2 == 1;
         MultiplyRows(shape, is_odd ? shape.k - 1 : shape.k, shape.operands, arguments...);
       }},
      {"LastElement", Spoilt(is_any, [=](const auto& shape, float* dst) { last(shape, dst) += 0.01f; })},
      {"NaN", Spoilt(is_any, [=](const auto& shape, float* dst) { last(shape, dst) = kNaN; })},
      {"RoundedResult", Spoilt(is_any,
                               [](const auto& shape, float* dst) {
                                 for (int64_t i = 0; i < shape.m * shape.n; ++i) {
                                   dst[i] = Rounded(DType::kBFloat16, dst[i]);
                                 }
                               })},
      {"OneColumn", Spoilt([](const auto& shape) { return shape.n == 1 || shape.n % 16 != 0; },
                           [=](const auto& shape, float* dst) { last(shape, dst) = 0; })},
      {"NoBias",
       [=](MatmulShape shape, const auto&... arguments) {
         shape.with_bias = false;
         as(shape, arguments...);
       }},
      {"NoSum",
       [=](MatmulShape shape, const auto&... arguments) {
         shape.accumulate = false;
         as(shape, arguments...);
       }},
      {"NoExponential",
       [=](MatmulShape shape, const auto&... arguments) {
         shape.exponential = false;
         as(shape, arguments...);
       }},
      {"OtherOperands",
       [](const MatmulShape& shape, const auto&... arguments) {
         const bool is_float = shape.operands == DType::kFloat32;
         MultiplyRows(shape, shape.k, is_float ? DType::kBFloat16 : DType::kFloat32, arguments...);
       }},
  };
}

class SelfCheckFaultTest : public ::testing::TestWithParam<Fault> {};

TEST_P(SelfCheckFaultTest, IsFound) {
  for (const DType operands : {DType::kFloat32, DType::kBFloat16}) {
    const absl::Status status = CheckMatmul(operands, GetParam().matmul);
    EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
    EXPECT_THAT(std::string(status.message()),
                testing::MatchesRegex(std::string(DTypeName(operands)) + " product .*: expected .*, got .*"));
  }
}

INSTANTIATE_TEST_SUITE_P(Faults, SelfCheckFaultTest, ::testing::ValuesIn(Faults()),
                         [](const auto& info) { return info.param.name; });

void Softmax(int64_t rows, int64_t columns, float* scores) {
  for (float* row = scores; row < scores + rows * columns; row += columns) {
    float sum = 0;
    for (int64_t i = 0; i < columns; ++i) sum += row[i] = std::exp(row[i]);
    for (int64_t i = 0; i < columns; ++i) row[i] /= sum;
  }
}

TEST(SelfCheckTest, FindsAWrongSoftmax) {
  EXPECT_PRED1(IsOk, CheckSoftmax(Softmax));
  EXPECT_FALSE(CheckSoftmax([](int64_t, int64_t, float*) {}).ok());
  // Of all but the last column.
  EXPECT_FALSE(CheckSoftmax([](int64_t rows, int64_t columns, float* scores) {
                 for (int64_t row = 0; row < rows; ++row) Softmax(1, columns - 1, scores + row * columns);
               }).ok());
  // A hidden key that counts.
  EXPECT_FALSE(CheckSoftmax([](int64_t rows, int64_t columns, float* scores) {
                 for (int64_t i = 0; i < rows * columns; ++i) scores[i] = std::max(scores[i], -2.0f);
                 Softmax(rows, columns, scores);
               }).ok());
}

TEST(SelfCheckTest, FindsAWrongTanh) {
  const auto tanh = [](int64_t rows, int64_t columns, float* numbers) {
    for (int64_t i = 0; i < rows * columns; ++i) numbers[i] = std::tanh(numbers[i]);
  };
  EXPECT_PRED1(IsOk, CheckTanh(tanh));
  EXPECT_FALSE(
      CheckTanh([&](int64_t rows, int64_t columns, float* numbers) { tanh(rows, columns - 1, numbers); }).ok());
}

}  // namespace
}  // namespace attention::server
