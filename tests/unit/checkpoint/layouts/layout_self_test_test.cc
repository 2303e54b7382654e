#include <gmock/gmock.h>

#include "tests/testing/matchers.h"
#include "tests/unit/checkpoint/layouts/layouts_checkpoint.h"

namespace attention::server {
namespace {

using ::attention::test::Checkpoint;
using ::attention::test::IsOk;
using ::attention::test::LayoutFault;
using ::attention::test::MakeIntegers;
using ::attention::test::Ones;
using ::attention::test::OnesLayer;
using ::attention::test::Parameters;
using ::attention::test::RandomLayer;
using ::attention::test::Remove;
using ::attention::test::Reshape;
using ::attention::test::StatusIs;
using ::attention::test::ToParameters;
using ::attention::test::operator+;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

// Queries of three features, keys of four, values of five; six come out.
constexpr LayerShape kShape = {.in_features = 3,
                               .in_k_features = 4,
                               .in_v_features = 5,
                               .heads = {.num_heads = 1, .num_kv_heads = 1, .head_dim = 2, .value_head_dim = 2},
                               .out_features = 6};

Parameters Tested() {
  return ToParameters(RandomLayer(kShape, 1), "params/a/") +
         Parameters{Ones("params/a/self_test/inputs_q", {2, 3}),
                    Ones("params/a/self_test/inputs_k", {7, 4}),
                    Ones("params/a/self_test/inputs_v", {7, 5}),
                    {"params/a/self_test/mask", DType::kBool, {2, 7}, std::string(14, '\1')},
                    Ones("params/a/self_test/output", {2, 6})};
}

TEST(LayoutSelfTestTest, BelongsToItsLayer) {
  const Checkpoint checkpoint(Tested() + ToParameters(OnesLayer(), "b/"));
  const absl::StatusOr<CheckpointLayers> found = checkpoint.Find();
  ASSERT_THAT(found, IsOk());
  EXPECT_THAT(found->unused_tensors, IsEmpty());
  ASSERT_EQ(found->layers.size(), 2);
  EXPECT_FALSE(found->layers[1].self_test.has_value());
  ASSERT_TRUE(found->layers[0].self_test.has_value());
  EXPECT_EQ(found->layers[0].parameters.size(), 8);
  const SelfTestTensors& test = *found->layers[0].self_test;
  EXPECT_EQ(test.inputs_q->name, "params/a/self_test/inputs_q");
  EXPECT_EQ(test.inputs_k->name, "params/a/self_test/inputs_k");
  EXPECT_EQ(test.inputs_v->name, "params/a/self_test/inputs_v");
  EXPECT_EQ(test.mask->name, "params/a/self_test/mask");
  EXPECT_EQ(test.output->name, "params/a/self_test/output");
  EXPECT_EQ(test.tolerance, 1e-4);
}

TEST(LayoutSelfTestTest, MayLeaveOutAllButTheQueryAndTheOutput) {
  const Checkpoint checkpoint(
      ToParameters(OnesLayer(), "") + Parameters{Ones("self_test.inputs_q", {2, 3}), Ones("self_test.output", {2, 4})},
      {{"self_test_tolerance", "0.5"}});
  const absl::StatusOr<CheckpointLayers> found = checkpoint.Find();
  ASSERT_THAT(found, IsOk());
  ASSERT_TRUE(found->layers[0].self_test.has_value());
  EXPECT_EQ(found->layers[0].self_test->inputs_k, nullptr);
  EXPECT_EQ(found->layers[0].self_test->inputs_v, nullptr);
  EXPECT_EQ(found->layers[0].self_test->mask, nullptr);
  EXPECT_EQ(found->layers[0].self_test->tolerance, 0.5);
}

TEST(LayoutSelfTestTest, IsUnusedWhereThereIsNoLayer) {
  const Checkpoint checkpoint(ToParameters(OnesLayer(), "a/") + Parameters{Ones("self_test/inputs_q", {2, 3})});
  const absl::StatusOr<CheckpointLayers> found = checkpoint.Find();
  ASSERT_THAT(found, IsOk());
  EXPECT_THAT(found->unused_tensors, ElementsAre("self_test/inputs_q"));
}

TEST(LayoutSelfTestTest, RefusesATolerantNonsense) {
  for (const std::string text : {"", "-1", "nan", "inf", "small"}) {
    EXPECT_THAT(Checkpoint(Tested(), {{"self_test_tolerance", text}}).Find(),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         "metadata self_test_tolerance: wanted a number of at least 0, found \"" + text + "\""));
  }
}

class LayoutSelfTestFaultTest : public ::testing::TestWithParam<LayoutFault> {};

TEST_P(LayoutSelfTestFaultTest, IsRefused) {
  Parameters parameters = Tested();
  GetParam().damage(parameters);
  EXPECT_THAT(Checkpoint(parameters).Find(), StatusIs(absl::StatusCode::kInvalidArgument, GetParam().message));
}

const LayoutFault kFaults[] = {
    {"NoQuery", Remove("params/a/self_test/inputs_q"),
     "params/a/self_test/inputs_q: missing, wanted with the other tensors of the self-test"},
    {"NoOutput", Remove("params/a/self_test/output"),
     "params/a/self_test/output: missing, wanted with the other tensors of the self-test"},
    {"ValueWithoutKey", Remove("params/a/self_test/inputs_k"),
     "params/a/self_test/inputs_k: missing, wanted with self_test/inputs_v"},
    {"QueryFeatures", Reshape("params/a/self_test/inputs_q", {2, 4}),
     "params/a/self_test/inputs_q: shape [2, 4], wanted [batch…, length, 3], as in_features of the layer"},
    {"QueryRank", Reshape("params/a/self_test/inputs_q", {3}),
     "params/a/self_test/inputs_q: shape [3], wanted [batch…, length, 3], as in_features of the layer"},
    {"KeyFeatures", Reshape("params/a/self_test/inputs_k", {7, 3}),
     "params/a/self_test/inputs_k: shape [7, 3], wanted [batch…, length, 4], as in_k_features of the layer"},
    {"KeysForValues", Remove("params/a/self_test/inputs_v"),
     "params/a/self_test/inputs_k: shape [7, 4], wanted [batch…, length, 5], as in_v_features of the layer"},
    {"OutputFeatures", Reshape("params/a/self_test/output", {2, 3}),
     "params/a/self_test/output: shape [2, 3], wanted [batch…, length, 6], as out_features of the layer"},
    {"FloatMask", Reshape("params/a/self_test/mask", {2, 7}), "params/a/self_test/mask: dtype float32, wanted bool"},
    {"IntegerOutput", MakeIntegers("params/a/self_test/output"),
     "params/a/self_test/output: dtype int32, wanted float32, bfloat16, float16 or float64"},
};

INSTANTIATE_TEST_SUITE_P(Faults, LayoutSelfTestFaultTest, ::testing::ValuesIn(kFaults),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace attention::server
