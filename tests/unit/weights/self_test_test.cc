#include "server/weights/self_test.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "absl/strings/str_cat.h"
#include "server/engine/engine.h"
#include "server/rpc/self_test_call.h"
#include "tests/testing/matchers.h"
#include "tests/testing/weights.h"

namespace attention::server {
namespace {

using ::attention::test::IsOk;
using ::attention::test::StatusIs;
using ::testing::HasSubstr;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

// A tensor that owns its numbers.
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

// What a layer is said to have computed against what is wanted, both [1, n].
absl::Status Compare(const std::vector<float>& got, const std::vector<float>& wanted, double tolerance) {
  const auto n = static_cast<int64_t>(wanted.size());
  const Tensor output("self_test/output", {1, n}, wanted);
  LayerTensors layer;
  layer.name = "ocr/a";
  layer.self_test = SelfTestTensors{.output = &output.tensor, .tolerance = tolerance};
  return RunSelfTest(layer, Ones(), [&](const Layer&, const SelfTestTensors&) {
    return SelfTestOutput{{1, static_cast<int64_t>(got.size())}, got};
  });
}

TEST(SelfTestTest, AllowsTheToleranceTimesTheNumberOrOne) {
  EXPECT_THAT(Compare({1, -1, 0}, {1, -1, 0}, 0), IsOk());
  EXPECT_THAT(Compare({0.5f, 0, 110}, {0.4375f, 0.0625f, 100}, 0.125), IsOk());
  EXPECT_THAT(Compare({}, {}, 0), IsOk());
}

TEST(SelfTestTest, NamesTheGreatestDifference) {
  struct Case {
    std::vector<float> got, wanted;
    double tolerance;
    std::string message;
  };
  for (const Case& c : std::vector<Case>{
           {{1, 2, 3},
            {1, 2, 3.5f},
            0.125,
            "output [0, 2] is 3, wanted 3.5: a difference of 0.5, beyond the tolerance 0.125"},
           {{0.25f, 90, 0}, {0, 100, 0}, 0.0625, "output [0, 0] is 0.25, wanted 0: a difference of 0.25"},
           {{0.25f, 80, 0}, {0, 100, 0}, 0.015625, "output [0, 0] is 0.25"},
           {{1, kNan}, {1, 1}, 0.5, "output [0, 1] is nan, wanted 1"},
           {{kNan}, {kNan}, 0.5, "output [0, 0] is nan, wanted nan"},
           {{kInf}, {1}, 0.5, "output [0, 0] is inf, wanted 1"},
           {{1, 2}, {1, 2.5f}, 0, "output [0, 1] is 2, wanted 2.5"},
       }) {
    EXPECT_THAT(
        Compare(c.got, c.wanted, c.tolerance),
        StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("self-test of weight set ocr/a: " + c.message)));
  }
}

TEST(SelfTestTest, RefusesAnOutputOfAnotherShape) {
  EXPECT_THAT(Compare({1, 2}, {1, 2, 3}, 1),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       "self-test of weight set ocr/a: self_test/output: shape [1, 3], wanted [1, 2]"));
}

TEST(SelfTestTest, PassesALayerWithoutOne) {
  LayerTensors layer;
  EXPECT_THAT(RunSelfTest(layer, Ones(),
                          [](const Layer&, const SelfTestTensors&) { return absl::InternalError("not to be called"); }),
              IsOk());
}

// As the server does it: the output of a token is the sum of the features of what it attends to.
class SelfTestCallTest : public ::testing::Test {
 protected:
  absl::StatusOr<SelfTestOutput> Attend(const SelfTestTensors& test) {
    static const std::unique_ptr<Engine> engine = *Engine::Create(1);
    const SelfTestContext context{
        .compute = [](const Layer& layer, const AttentionCall& call) { return engine->Compute(&layer, {&call}); },
        .max_message_bytes = 1 << 20,
        .max_inflight_bytes = max_inflight_bytes_};
    return AttendSelfTest(context, Ones(), test);
  }

  int64_t max_inflight_bytes_ = 1 << 30;
  const Tensor q_{"self_test/inputs_q", {2, 1, 3}, {1, 2, 3, 4, 5, 6}};
  const Tensor k_{"self_test/inputs_k", {2, 2, 3}, {0, 0, 1, 0, 0, 2, 0, 0, 3, 0, 0, 4}};
};

TEST_F(SelfTestCallTest, ComputesSelfAttention) {
  const auto output = Attend({.inputs_q = &q_.tensor});
  ASSERT_THAT(output, IsOk());
  EXPECT_EQ(output->shape, (Shape{2, 1, 4}));
  EXPECT_EQ(output->values, (std::vector<float>{6, 6, 6, 6, 15, 15, 15, 15}));
}

TEST_F(SelfTestCallTest, TakesInputsKAndAMask) {
  // The first key for all.
  static constexpr std::byte kFirst[] = {std::byte{1}, std::byte{0}};
  NamedTensor mask;
  mask.dtype = DType::kBool;
  mask.shape = {2};
  mask.data = kFirst;
  const auto output = Attend({.inputs_q = &q_.tensor, .inputs_k = &k_.tensor, .mask = &mask});
  ASSERT_THAT(output, IsOk());
  EXPECT_EQ(output->values, (std::vector<float>{1, 1, 1, 1, 3, 3, 3, 3}));
}

TEST_F(SelfTestCallTest, HasTheRulesAndLimitsOfARequest) {
  const Tensor other("self_test/inputs_k", {3, 2, 3}, std::vector<float>(18));
  EXPECT_THAT(Attend({.inputs_q = &q_.tensor, .inputs_k = &other.tensor}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("inputs_k")));
  const Tensor none("self_test/inputs_q", {1, 0, 3}, {});
  EXPECT_EQ(Attend({.inputs_q = &none.tensor})->shape, (Shape{1, 0, 4}));
  max_inflight_bytes_ = 10;
  EXPECT_THAT(Attend({.inputs_q = &q_.tensor}),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("--max-inflight-bytes allows 10")));
}

}  // namespace
}  // namespace attention::server
