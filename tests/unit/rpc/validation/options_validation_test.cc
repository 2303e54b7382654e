#include "server/rpc/validation/options_validation.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <string>

#include "tests/testing/matchers.h"

namespace attention::server {
namespace {

using ::attention::test::IsOk;
using ::attention::test::StatusIs;

constexpr int64_t kHeadDim = 16;
constexpr int64_t kKvLength = 8;

TEST(OptionsValidationTest, SetsTheDefaults) {
  const auto options = CheckOptions(v1::AttendOptions(), kHeadDim, kKvLength);
  ASSERT_THAT(options, IsOk());
  EXPECT_EQ(options->compute_dtype, DType::kFloat32);
  EXPECT_EQ(options->empty_rows, EmptyRowRule::kUniform);
  EXPECT_EQ(options->scale, 0.25f);
  EXPECT_EQ(options->softcap, 0.0f);
  EXPECT_EQ(options->top_k, 0);
  EXPECT_FALSE(options->compute_hidden);
}

TEST(OptionsValidationTest, UsesTheOptionsOfTheRequest) {
  v1::AttendOptions wire;
  wire.set_compute_dtype(v1::DATA_TYPE_BFLOAT16);
  wire.set_empty_rows(v1::EMPTY_ROWS_ERROR);
  wire.set_scale(-3.5f);
  wire.set_softcap(30.0f);
  wire.set_top_k(8);
  wire.set_return_intermediates(true);
  const auto options = CheckOptions(wire, kHeadDim, kKvLength);
  ASSERT_THAT(options, IsOk());
  EXPECT_EQ(options->compute_dtype, DType::kBFloat16);
  EXPECT_EQ(options->empty_rows, EmptyRowRule::kError);
  EXPECT_EQ(options->scale, -3.5f);
  EXPECT_EQ(options->softcap, 30.0f);
  EXPECT_EQ(options->top_k, 8);
  EXPECT_TRUE(options->compute_hidden);
}

TEST(OptionsValidationTest, AcceptsAScaleOfZero) {
  v1::AttendOptions wire;
  wire.set_scale(0);
  EXPECT_EQ(CheckOptions(wire, kHeadDim, kKvLength)->scale, 0.0f);
}

TEST(OptionsValidationTest, KnowsEveryRuleForEmptyRows) {
  v1::AttendOptions wire;
  wire.set_empty_rows(v1::EMPTY_ROWS_UNIFORM);
  EXPECT_EQ(CheckOptions(wire, kHeadDim, kKvLength)->empty_rows, EmptyRowRule::kUniform);
  wire.set_empty_rows(v1::EMPTY_ROWS_ZERO);
  EXPECT_EQ(CheckOptions(wire, kHeadDim, kKvLength)->empty_rows, EmptyRowRule::kZero);
}

struct BadOption {
  std::string name;
  std::function<void(v1::AttendOptions&)> mutate;
  std::string message;
};

void PrintTo(const BadOption& bad, std::ostream* out) { *out << bad.name; }

class BadOptionTest : public ::testing::TestWithParam<BadOption> {};

TEST_P(BadOptionTest, NamesOptionExpectedAndActual) {
  v1::AttendOptions wire;
  GetParam().mutate(wire);
  EXPECT_THAT(CheckOptions(wire, kHeadDim, kKvLength),
              StatusIs(absl::StatusCode::kInvalidArgument, GetParam().message));
}

constexpr float kInfinity = std::numeric_limits<float>::infinity();

INSTANTIATE_TEST_SUITE_P(
    Options, BadOptionTest,
    ::testing::Values(BadOption{"ScaleInfinite", [](auto& wire) { wire.set_scale(-kInfinity); },
                                "options.scale: expected a finite number, got -inf"},
                      BadOption{"ScaleNaN", [](auto& wire) { wire.set_scale(std::nanf("")); },
                                "options.scale: expected a finite number, got nan"},
                      BadOption{"SoftcapZero", [](auto& wire) { wire.set_softcap(0); },
                                "options.softcap: expected a finite number above 0, got 0"},
                      BadOption{"SoftcapNegative", [](auto& wire) { wire.set_softcap(-2.5f); },
                                "options.softcap: expected a finite number above 0, got -2.5"},
                      BadOption{"SoftcapInfinite", [](auto& wire) { wire.set_softcap(kInfinity); },
                                "options.softcap: expected a finite number above 0, got inf"},
                      BadOption{"SoftcapNaN", [](auto& wire) { wire.set_softcap(std::nanf("")); },
                                "options.softcap: expected a finite number above 0, got nan"},
                      BadOption{"TopKNegative", [](auto& wire) { wire.set_top_k(-1); },
                                "options.top_k: expected 0 to kv_length 8, got -1"},
                      BadOption{"TopKAboveKvLength", [](auto& wire) { wire.set_top_k(9); },
                                "options.top_k: expected 0 to kv_length 8, got 9"},
                      BadOption{"ComputeFloat16", [](auto& wire) { wire.set_compute_dtype(v1::DATA_TYPE_FLOAT16); },
                                "options.compute_dtype: expected dtype float32 or bfloat16, got float16"},
                      BadOption{"ComputeOutOfEnum",
                                [](auto& wire) { wire.set_compute_dtype(static_cast<v1::DataType>(99)); },
                                "options.compute_dtype: expected dtype float32 or bfloat16, got 99"},
                      BadOption{"EmptyRowsOutOfEnum",
                                [](auto& wire) { wire.set_empty_rows(static_cast<v1::EmptyRows>(4)); },
                                "options.empty_rows: expected UNIFORM, ZERO or ERROR, got 4"}),
    [](const auto& info) { return info.param.name; });

TEST(OptionsValidationTest, UsesTheTypeOfInputsQForTheOutputByDefault) {
  v1::AttendOptions wire;
  EXPECT_EQ(*CheckOutputDType(wire, DType::kBFloat16), DType::kBFloat16);
  wire.set_output_dtype(v1::DATA_TYPE_FLOAT64);
  EXPECT_EQ(*CheckOutputDType(wire, DType::kBFloat16), DType::kFloat64);
  wire.set_output_dtype(v1::DATA_TYPE_INT8);
  EXPECT_THAT(CheckOutputDType(wire, DType::kBFloat16),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       "options.output_dtype: expected dtype float32, bfloat16, float16 or float64, got int8"));
}

}  // namespace
}  // namespace attention::server
