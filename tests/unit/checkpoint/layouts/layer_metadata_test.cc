#include <gmock/gmock.h>

#include "tests/testing/matchers.h"
#include "tests/unit/checkpoint/layouts/layouts_fixture.h"

namespace attention::server {
namespace {

using ::attention::test::Checkpoint;
using ::attention::test::IsOk;
using ::attention::test::LayoutFault;
using ::attention::test::MakeIntegers;
using ::attention::test::Ones;
using ::attention::test::OnesLayer;
using ::attention::test::operator+;
using ::attention::test::Parameters;
using ::attention::test::RandomLayer;
using ::attention::test::Remove;
using ::attention::test::Reshape;
using ::attention::test::StatusIs;
using ::attention::test::ToParameters;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using Metadata = std::map<std::string, std::string>;

Parameters Layer(const std::string& path) {
  return {Ones(path + "q_proj.weight", {24, 2}), Ones(path + "k_proj.weight", {24, 2}),
          Ones(path + "v_proj.weight", {24, 2}), Ones(path + "o_proj.weight", {2, 24})};
}

struct NumHeadsCase {
  std::string name;
  std::string path;
  Metadata metadata;
  int64_t requested = 0;
  int64_t expected = 0;
};

void PrintTo(const NumHeadsCase& c, std::ostream* out) { *out << c.name; }

class NumHeadsTest : public ::testing::TestWithParam<NumHeadsCase> {};

TEST_P(NumHeadsTest, IsFound) {
  const Checkpoint checkpoint(Layer(GetParam().path), GetParam().metadata);
  const absl::StatusOr<CheckpointLayers> found = checkpoint.Find(GetParam().requested);
  ASSERT_THAT(found, IsOk());
  EXPECT_EQ(found->layers[0].shape.heads.num_heads, GetParam().expected);
  EXPECT_EQ(found->layers[0].shape.heads.head_dim, 24 / GetParam().expected);
}

const NumHeadsCase kCases[] = {
    {"FromTheRequest", "a.b.", {}, 3, 3},
    {"FromTheFile", "a.b.", {{"num_heads", "4"}}, 0, 4},
    {"FromThePathWithDots", "a.b.", {{"a.b.num_heads", "6"}}, 0, 6},
    {"FromThePathWithSlashes", "a.b.", {{"a/b/num_heads", "6"}}, 0, 6},
    {"FromThePathWithParams", "params/a/", {{"params/a/num_heads", "6"}}, 0, 6},
    {"FromThePathWithoutParams", "params/a/", {{"a/num_heads", "6"}}, 0, 6},
    {"FromTheFileOfARootLayer", "", {{"num_heads", "8"}}, 0, 8},
    {"ThePathOverridesTheFile", "a.b.", {{"num_heads", "4"}, {"a.b.num_heads", "6"}}, 0, 6},
    {"TheRequestOverridesBoth", "a.b.", {{"num_heads", "4"}, {"a.b.num_heads", "6"}}, 12, 12},
    {"TheRequestOverridesInvalidMetadata", "a.b.", {{"num_heads", "many"}}, 2, 2},
    {"OtherPathsDoNotMatter", "a.b.", {{"num_heads", "4"}, {"b.num_heads", "6"}, {"x_num_heads", "y"}}, 0, 4},
};

INSTANTIATE_TEST_SUITE_P(Places, NumHeadsTest, ::testing::ValuesIn(kCases),
                         [](const auto& info) { return info.param.name; });

TEST(NumHeadsTest, CanDifferBetweenLayers) {
  const Checkpoint checkpoint(Layer("a.") + Layer("b."), {{"num_heads", "4"}, {"b.num_heads", "6"}});
  const absl::StatusOr<CheckpointLayers> found = checkpoint.Find();
  ASSERT_THAT(found, IsOk());
  ASSERT_EQ(found->layers.size(), 2);
  EXPECT_EQ(found->layers[0].shape.heads.num_heads, 4);
  EXPECT_EQ(found->layers[1].shape.heads.num_heads, 6);
}

TEST(NumHeadsTest, IsRequiredWithAllWaysToStateIt) {
  EXPECT_THAT(
      Checkpoint(Layer("a.b.")).Find(),
      StatusIs(absl::StatusCode::kInvalidArgument,
               "num_heads: required, because the shapes do not show the heads of a/b; set it in the request, or as "
               "num_heads or a/b/num_heads in the metadata of the file"));
  EXPECT_THAT(
      Checkpoint(Layer("")).Find(),
      StatusIs(absl::StatusCode::kInvalidArgument,
               "num_heads: required, because the shapes do not show the heads of the layer; set it in the request, "
               "or as num_heads in the metadata of the file"));
}

TEST(NumHeadsTest, IsAnIntegerOfAtLeastOne) {
  for (const std::string text : {"", "0", "-4", "4.0", "4 heads", "9223372036854775808"}) {
    EXPECT_THAT(Checkpoint(Layer("a."), {{"num_heads", text}}).Find(),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         "metadata num_heads: expected an integer of at least 1, got \"" + text + "\""));
  }
}

TEST(NumHeadsTest, IsIgnoredIfTheShapesShowIt) {
  const Checkpoint checkpoint(ToParameters(OnesLayer(), "a/"), {{"num_heads", "many"}});
  const absl::StatusOr<CheckpointLayers> found = checkpoint.Find(7);
  ASSERT_THAT(found, IsOk());
  EXPECT_EQ(found->layers[0].shape.heads.num_heads, 1);
}

// Inputs of three (query), four (key) and five (value) features, output of six.
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

TEST(SelfTestTensorsTest, BelongToTheirLayer) {
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

TEST(SelfTestTensorsTest, NeedOnlyTheQueryAndTheOutput) {
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

TEST(SelfTestTensorsTest, AreUnusedWithoutALayer) {
  const Checkpoint checkpoint(ToParameters(OnesLayer(), "a/") + Parameters{Ones("self_test/inputs_q", {2, 3})});
  const absl::StatusOr<CheckpointLayers> found = checkpoint.Find();
  ASSERT_THAT(found, IsOk());
  EXPECT_THAT(found->unused_tensors, ElementsAre("self_test/inputs_q"));
}

TEST(SelfTestTensorsTest, RefuseAnInvalidTolerance) {
  for (const std::string text : {"", "-1", "nan", "inf", "small"}) {
    EXPECT_THAT(Checkpoint(Tested(), {{"self_test_tolerance", text}}).Find(),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         "metadata self_test_tolerance: expected a number of at least 0, got \"" + text + "\""));
  }
}

class SelfTestTensorsFaultsTest : public ::testing::TestWithParam<LayoutFault> {};

TEST_P(SelfTestTensorsFaultsTest, IsRefused) {
  Parameters parameters = Tested();
  GetParam().damage(parameters);
  EXPECT_THAT(Checkpoint(parameters).Find(), StatusIs(absl::StatusCode::kInvalidArgument, GetParam().message));
}

const LayoutFault kFaults[] = {
    {"NoQuery", Remove("params/a/self_test/inputs_q"),
     "params/a/self_test/inputs_q: missing, required with the other tensors of the self-test"},
    {"NoOutput", Remove("params/a/self_test/output"),
     "params/a/self_test/output: missing, required with the other tensors of the self-test"},
    {"ValueWithoutKey", Remove("params/a/self_test/inputs_k"),
     "params/a/self_test/inputs_k: missing, required with self_test/inputs_v"},
    {"QueryFeatures", Reshape("params/a/self_test/inputs_q", {2, 4}),
     "params/a/self_test/inputs_q: expected shape [batch…, length, 3] as in_features of the layer, got shape [2, 4]"},
    {"QueryRank", Reshape("params/a/self_test/inputs_q", {3}),
     "params/a/self_test/inputs_q: expected shape [batch…, length, 3] as in_features of the layer, got shape [3]"},
    {"KeyFeatures", Reshape("params/a/self_test/inputs_k", {7, 3}),
     "params/a/self_test/inputs_k: expected shape [batch…, length, 4] as in_k_features of the layer, got shape [7, 3]"},
    {"KeysForValues", Remove("params/a/self_test/inputs_v"),
     "params/a/self_test/inputs_k: expected shape [batch…, length, 5] as in_v_features of the layer, got shape [7, 4]"},
    {"OutputFeatures", Reshape("params/a/self_test/output", {2, 3}),
     "params/a/self_test/output: expected shape [batch…, length, 6] as out_features of the layer, got shape [2, 3]"},
    {"FloatMask", Reshape("params/a/self_test/mask", {2, 7}),
     "params/a/self_test/mask: expected dtype bool, got float32"},
    {"IntegerOutput", MakeIntegers("params/a/self_test/output"),
     "params/a/self_test/output: expected dtype float32, bfloat16, float16 or float64, got int32"},
};

INSTANTIATE_TEST_SUITE_P(Faults, SelfTestTensorsFaultsTest, ::testing::ValuesIn(kFaults),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace attention::server
