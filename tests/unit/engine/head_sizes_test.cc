// Attention with odd and even sizes. oneDNN's kernels treat sizes that do not fill a register in ways of their own.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "server/engine/engine.h"
#include "tests/testing/files/weights.h"
#include "tests/testing/matchers.h"
#include "tests/testing/reference/reference_attention.h"
#include "tests/unit/engine/owned_call.h"

namespace attention::server {
namespace {

// In bfloat16 a weight next to the middle of two numbers may be rounded to either.
double Tolerance(DType operands) { return operands == DType::kBFloat16 ? 1e-2 : 1e-5; }

double LargestError(const std::vector<float>& actual, const std::vector<double>& expected) {
  EXPECT_EQ(actual.size(), expected.size());
  double largest = 0;
  for (size_t i = 0; i < std::min(actual.size(), expected.size()); ++i) {
    const double error = std::abs(actual[i] - expected[i]);
    if (!(error <= largest)) largest = error;  // NaN as well
  }
  return largest;
}

class HeadSizesTest : public ::testing::TestWithParam<DType> {
 protected:
  HeadSizesTest() : engine_(*Engine::Create(1)) {}

  double ErrorOf(const Layer* layer, OwnedCall& call, const std::vector<double>& expected) {
    call.call.options.compute_dtype = GetParam();
    const AttentionCall* pointer = &call.call;
    EXPECT_THAT(engine_->Compute(layer, {&pointer, 1}), test::IsOk());
    return LargestError(call.output, expected);
  }

  double ErrorOfHeads(const HeadShape& heads, const Sizes& sizes) {
    const int64_t query = heads.query_features(), key = heads.key_features(), value = heads.value_features();
    OwnedCall call({query, key, value, heads, heads.context_features()}, sizes, 1);
    test::ReferenceInputs inputs = call.Reference();
    inputs.bfloat16 = GetParam() == DType::kBFloat16;
    return ErrorOf(nullptr, call, test::ReferenceAttention(heads, inputs).output);
  }

  double ErrorOfLayer(const LayerShape& shape, const Sizes& sizes) {
    const LayerParameters parameters = test::RandomLayer(shape, 2);
    const auto layer = Layer::Pack(parameters);
    if (!layer.ok()) return std::nan("");
    OwnedCall call(shape, sizes, 3);
    test::ReferenceInputs inputs = call.Reference();
    inputs.bfloat16 = GetParam() == DType::kBFloat16;
    return ErrorOf(layer->get(), call, test::ReferenceAttention(parameters, inputs).output);
  }

  const std::unique_ptr<Engine> engine_;
};

// With a mask the softmax is a pass of its own, without one it is part of the product.
TEST_P(HeadSizesTest, AreRightWithoutProjections) {
  for (const int64_t head_dim : {1, 2, 3, 4, 5, 6, 7, 8, 9, 16, 64}) {
    for (const int64_t value_head_dim : {head_dim, head_dim % 9 + 1}) {
      for (const bool with_mask : {false, true}) {
        const HeadShape heads{2, 1, head_dim, value_head_dim};
        EXPECT_LT(ErrorOfHeads(heads, {1, 5, 19, false, with_mask, true}), Tolerance(GetParam()))
            << head_dim << " and " << value_head_dim << (with_mask ? " with a mask" : "");
      }
    }
  }
}

TEST_P(HeadSizesTest, AreRightInALayer) {
  for (const LayerShape& shape : {LayerShape{5, 7, 9, {3, 3, 5, 5}, 11}, LayerShape{40, 39, 38, {4, 2, 8, 3}, 6}}) {
    for (const bool with_mask : {false, true}) {
      EXPECT_LT(ErrorOfLayer(shape, {2, 6, 21, false, with_mask, true}), Tolerance(GetParam()))
          << shape.in_features << " features" << (with_mask ? " with a mask" : "");
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Operands, HeadSizesTest, ::testing::Values(DType::kFloat32, DType::kBFloat16),
                         [](const auto& info) { return std::string(DTypeName(info.param)); });

}  // namespace
}  // namespace attention::server
