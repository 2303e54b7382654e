#include "server/rpc/self_test_runner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "absl/strings/str_cat.h"
#include "tests/testing/files/weights.h"
#include "tests/testing/matchers.h"

namespace attention::server {
namespace {

using ::attention::test::IsOk;
using ::attention::test::StatusIs;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

// A tensor that owns its values.
struct Tensor {
  Tensor(const std::string& name, const Shape& shape, const std::vector<float>& values) : values(values) {
    tensor.name = name;
    tensor.shape = shape;
    tensor.data = absl::MakeConstSpan(reinterpret_cast<const std::byte*>(this->values.data()), values.size() * 4);
  }

  std::vector<float> values;
  NamedTensor tensor;
};

const Layer& Ones() {
  static const std::shared_ptr<const Layer> layer = *Layer::Pack(test::OnesLayer());
  return *layer;
}

// Compares an output with the expected values of a self-test, both [1, n].
absl::Status Compare(const std::vector<float>& actual, const std::vector<float>& expected, double tolerance) {
  const Tensor output("self_test/output", {1, static_cast<int64_t>(expected.size())}, expected);
  return CompareWithSelfTest({{1, static_cast<int64_t>(actual.size())}, actual},
                             {.output = &output.tensor, .tolerance = tolerance});
}

TEST(CompareWithSelfTestTest, AllowsTheToleranceTimesTheNumberOrOne) {
  EXPECT_THAT(Compare({1, -1, 0}, {1, -1, 0}, 0), IsOk());
  EXPECT_THAT(Compare({0.5f, 0, 110}, {0.4375f, 0.0625f, 100}, 0.125), IsOk());
  EXPECT_THAT(Compare({}, {}, 0), IsOk());
}

TEST(CompareWithSelfTestTest, NamesTheWorstDifference) {
  struct Case {
    std::vector<float> actual, expected;
    double tolerance;
    std::string message;
  };
  for (const Case& c : std::vector<Case>{
           {{1, 2, 3},
            {1, 2, 3.5f},
            0.125,
            "output [0, 2]: expected 3.5, got 3; the difference 0.5 exceeds the tolerance 0.125"},
           {{0.25f, 90, 0}, {0, 100, 0}, 0.0625, "output [0, 0]: expected 0, got 0.25; the difference 0.25 exceeds"},
           {{0.25f, 80, 0}, {0, 100, 0}, 0.015625, "output [0, 0]: expected 0, got 0.25"},
           {{1, kNan}, {1, 1}, 0.5, "output [0, 1]: expected 1, got nan"},
           {{kNan}, {kNan}, 0.5, "output [0, 0]: expected nan, got nan"},
           {{kInf}, {1}, 0.5, "output [0, 0]: expected 1, got inf"},
           {{1, 2}, {1, 2.5f}, 0, "output [0, 1]: expected 2.5, got 2"},
       }) {
    EXPECT_THAT(Compare(c.actual, c.expected, c.tolerance),
                StatusIs(absl::StatusCode::kFailedPrecondition, StartsWith(c.message)));
  }
}

TEST(CompareWithSelfTestTest, RejectsAnOutputOfAnotherShape) {
  EXPECT_THAT(Compare({1, 2}, {1, 2, 3}, 1),
              StatusIs(absl::StatusCode::kInvalidArgument, "self_test/output: expected shape [1, 2], got [1, 3]"));
}

// The output of OnesLayer for a query is the sum of the features of the keys that it attends to.
class RequestSelfTestRunnerTest : public ::testing::Test {
 protected:
  absl::StatusOr<SelfTestOutput> Compute(const SelfTestTensors& test) {
    RequestSelfTestRunner runner({.max_message_bytes = 1 << 20, .max_inflight_bytes = max_inflight_bytes_});
    return runner.Compute(test, Ones());
  }

  int64_t max_inflight_bytes_ = 1 << 30;
  const Tensor q_{"self_test/inputs_q", {2, 1, 3}, {1, 2, 3, 4, 5, 6}};
  const Tensor k_{"self_test/inputs_k", {2, 2, 3}, {0, 0, 1, 0, 0, 2, 0, 0, 3, 0, 0, 4}};
};

TEST_F(RequestSelfTestRunnerTest, ComputesSelfAttention) {
  const auto output = Compute({.inputs_q = &q_.tensor});
  ASSERT_THAT(output, IsOk());
  EXPECT_EQ(output->shape, (Shape{2, 1, 4}));
  EXPECT_EQ(output->values, (std::vector<float>{6, 6, 6, 6, 15, 15, 15, 15}));
}

TEST_F(RequestSelfTestRunnerTest, AcceptsInputsKAndAMask) {
  // Only the first key is visible.
  static constexpr std::byte kFirst[] = {std::byte{1}, std::byte{0}};
  NamedTensor mask;
  mask.dtype = DType::kBool;
  mask.shape = {2};
  mask.data = kFirst;
  const auto output = Compute({.inputs_q = &q_.tensor, .inputs_k = &k_.tensor, .mask = &mask});
  ASSERT_THAT(output, IsOk());
  EXPECT_EQ(output->values, (std::vector<float>{1, 1, 1, 1, 3, 3, 3, 3}));
}

TEST_F(RequestSelfTestRunnerTest, AppliesTheRulesAndLimitsOfRequests) {
  const Tensor other("self_test/inputs_k", {3, 2, 3}, std::vector<float>(18));
  EXPECT_THAT(Compute({.inputs_q = &q_.tensor, .inputs_k = &other.tensor}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("inputs_k")));
  const Tensor none("self_test/inputs_q", {1, 0, 3}, {});
  EXPECT_EQ(Compute({.inputs_q = &none.tensor})->shape, (Shape{1, 0, 4}));
  max_inflight_bytes_ = 10;
  EXPECT_THAT(Compute({.inputs_q = &q_.tensor}),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       StartsWith("--max-inflight-bytes: expected at most 10 bytes of working memory, got ")));
}

TEST_F(RequestSelfTestRunnerTest, ComparesTheComputedOutput) {
  RequestSelfTestRunner runner({.max_message_bytes = 1 << 20, .max_inflight_bytes = 1 << 30});
  const Tensor right("self_test/output", {2, 1, 4}, {6, 6, 6, 6, 15, 15, 15, 15});
  const Tensor wrong("self_test/output", {2, 1, 4}, {6, 6, 6, 6, 15, 15, 16, 15});
  EXPECT_THAT(runner.Run({.inputs_q = &q_.tensor, .output = &right.tensor}, Ones()), IsOk());
  EXPECT_THAT(runner.Run({.inputs_q = &q_.tensor, .output = &wrong.tensor}, Ones()),
              StatusIs(absl::StatusCode::kFailedPrecondition, StartsWith("output [1, 0, 2]: expected 16, got 15;")));
}

}  // namespace
}  // namespace attention::server
