// The layouts bert and projections: the numbers of small layers, worked out by hand, and what is refused.

#include <gmock/gmock.h>

#include "tests/testing/matchers.h"
#include "tests/unit/checkpoint/layouts/layouts_checkpoint.h"

namespace attention::server {
namespace {

using ::attention::test::Add;
using ::attention::test::Checkpoint;
using ::attention::test::Counted;
using ::attention::test::FloatParameter;
using ::attention::test::IsOk;
using ::attention::test::LayoutFault;
using ::attention::test::MakeIntegers;
using ::attention::test::Ones;
using ::attention::test::Parameters;
using ::attention::test::Remove;
using ::attention::test::Reshape;
using ::attention::test::StatusIs;
using ::attention::test::operator+;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

// Four heads of two for queries of two features; the keys have two heads, the values two of one.
Parameters Grouped(const std::string& out = "o_proj") {
  return {Counted("a.q_proj.weight", 8, 2), Counted("a.k_proj.weight", 4, 2, 100),
          Counted("a.v_proj.weight", 2, 2, 200), Counted("a." + out + ".weight", 3, 4, 500)};
}

Parameters Bert() {
  return {Counted("layer.0.attention.self.query.weight", 4, 2),
          FloatParameter("layer.0.attention.self.query.bias", {4}, {1, 2, 3, 4}),
          Counted("layer.0.attention.self.key.weight", 4, 2, 100),
          FloatParameter("layer.0.attention.self.key.bias", {4}, {5, 6, 7, 8}),
          Counted("layer.0.attention.self.value.weight", 4, 2, 200),
          FloatParameter("layer.0.attention.self.value.bias", {4}, {9, 10, 11, 12}),
          Counted("layer.0.attention.output.dense.weight", 2, 4, 500),
          FloatParameter("layer.0.attention.output.dense.bias", {2}, {13, 14})};
}

TEST(LayoutBertTest, TurnsEachMatrixAndKeepsTheOrderOfTheHeads) {
  const Checkpoint checkpoint(Bert());
  const absl::StatusOr<CheckpointLayers> found = checkpoint.Find(2);
  ASSERT_THAT(found, IsOk());
  EXPECT_THAT(found->unused_tensors, IsEmpty());
  ASSERT_EQ(found->layers.size(), 1);
  const LayerTensors& layer = found->layers[0];
  EXPECT_EQ(layer.name, "ocr/layer/0/attention");
  EXPECT_EQ(layer.layout, "bert");
  ASSERT_EQ(layer.parameters.size(), 8);
  EXPECT_EQ(layer.parameters[0].name, "output.dense.bias");
  EXPECT_EQ(layer.parameters[7].name, "self.value.weight");
  EXPECT_EQ(layer.query.kernel.shape, Shape({2, 2, 2}));
  EXPECT_EQ(layer.out.kernel.shape, Shape({2, 2, 2}));
  const LayerParameters read = ReadParameters(layer);
  EXPECT_THAT(read.query_kernel, ElementsAre(0, 10, 20, 30, 1, 11, 21, 31));
  EXPECT_THAT(read.key_kernel, ElementsAre(100, 110, 120, 130, 101, 111, 121, 131));
  EXPECT_THAT(read.value_kernel, ElementsAre(200, 210, 220, 230, 201, 211, 221, 231));
  EXPECT_THAT(read.out_kernel, ElementsAre(500, 510, 501, 511, 502, 512, 503, 513));
  EXPECT_THAT(read.query_bias, ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(read.key_bias, ElementsAre(5, 6, 7, 8));
  EXPECT_THAT(read.value_bias, ElementsAre(9, 10, 11, 12));
  EXPECT_THAT(read.out_bias, ElementsAre(13, 14));
}

// Of a whole block: the feed-forward has an "output.dense" too.
TEST(LayoutBertTest, LeavesTheRestOfTheBlockUnused) {
  const Checkpoint checkpoint(Bert() + Parameters{Ones("layer.0.output.dense.weight", {2, 8}),
                                                  Ones("layer.0.intermediate.dense.weight", {8, 2}),
                                                  Ones("layer.0.attention.output.LayerNorm.weight", {2})});
  const absl::StatusOr<CheckpointLayers> found = checkpoint.Find(2);
  ASSERT_THAT(found, IsOk());
  EXPECT_EQ(found->layers.size(), 1);
  EXPECT_THAT(found->unused_tensors, ElementsAre("layer.0.attention.output.LayerNorm.weight",
                                                 "layer.0.intermediate.dense.weight", "layer.0.output.dense.weight"));
}

TEST(LayoutProjectionsTest, ReadsGroupedHeadsOfTwoSizes) {
  const Checkpoint checkpoint(Grouped());
  const absl::StatusOr<CheckpointLayers> found = checkpoint.Find(4);
  ASSERT_THAT(found, IsOk());
  ASSERT_EQ(found->layers.size(), 1);
  EXPECT_EQ(found->layers[0].name, "ocr/a");
  EXPECT_EQ(found->layers[0].layout, "projections");
  const LayerParameters read = ReadParameters(found->layers[0]);
  EXPECT_EQ(read.shape.in_features, 2);
  EXPECT_EQ(read.shape.heads.num_heads, 4);
  EXPECT_EQ(read.shape.heads.num_kv_heads, 2);
  EXPECT_EQ(read.shape.heads.head_dim, 2);
  EXPECT_EQ(read.shape.heads.value_head_dim, 1);
  EXPECT_EQ(read.shape.out_features, 3);
  EXPECT_THAT(read.query_kernel, ElementsAre(0, 10, 20, 30, 40, 50, 60, 70, 1, 11, 21, 31, 41, 51, 61, 71));
  EXPECT_THAT(read.key_kernel, ElementsAre(100, 110, 120, 130, 101, 111, 121, 131));
  EXPECT_THAT(read.value_kernel, ElementsAre(200, 210, 201, 211));
  EXPECT_THAT(read.out_kernel, ElementsAre(500, 510, 520, 501, 511, 521, 502, 512, 522, 503, 513, 523));
  EXPECT_THAT(read.out_bias, IsEmpty());
}

TEST(LayoutProjectionsTest, TakesTheOtherNameOfTheOutput) {
  const Checkpoint checkpoint(Grouped("out_proj") + Parameters{Ones("a.out_proj.bias", {3})});
  const absl::StatusOr<CheckpointLayers> found = checkpoint.Find(4);
  ASSERT_THAT(found, IsOk());
  EXPECT_THAT(found->unused_tensors, IsEmpty());
  const LayerParameters read = ReadParameters(found->layers[0]);
  EXPECT_THAT(read.out_kernel, ElementsAre(500, 510, 520, 501, 511, 521, 502, 512, 522, 503, 513, 523));
  EXPECT_THAT(read.out_bias, ElementsAre(1, 1, 1));
}

// Whisper's keys have no bias.
TEST(LayoutProjectionsTest, TakesEachBiasByItself) {
  const Parameters biases[] = {{Ones("a.q_proj.bias", {8})},
                               {Ones("a.k_proj.bias", {4})},
                               {Ones("a.v_proj.bias", {2})},
                               {Ones("a.o_proj.bias", {3})}};
  for (size_t i = 0; i < std::size(biases); ++i) {
    const Checkpoint checkpoint(Grouped() + biases[i]);
    const absl::StatusOr<CheckpointLayers> found = checkpoint.Find(4);
    ASSERT_THAT(found, IsOk()) << i;
    const LayerParameters read = ReadParameters(found->layers[0]);
    EXPECT_EQ(read.query_bias.size(), i == 0 ? 8 : 0) << i;
    EXPECT_EQ(read.key_bias.size(), i == 1 ? 4 : 0) << i;
    EXPECT_EQ(read.value_bias.size(), i == 2 ? 2 : 0) << i;
    EXPECT_EQ(read.out_bias.size(), i == 3 ? 3 : 0) << i;
  }
}

TEST(LayoutProjectionsTest, LeavesALoneOutputUnused) {
  const Checkpoint checkpoint(Grouped() +
                              Parameters{Ones("mlp.out_proj.weight", {2, 2}), Ones("mlp.o_proj.bias", {2})});
  const absl::StatusOr<CheckpointLayers> found = checkpoint.Find(4);
  ASSERT_THAT(found, IsOk());
  EXPECT_THAT(found->unused_tensors, ElementsAre("mlp.o_proj.bias", "mlp.out_proj.weight"));
}

class LayoutLinearFaultTest : public ::testing::TestWithParam<LayoutFault> {};
class LayoutBertFaultTest : public ::testing::TestWithParam<LayoutFault> {};

TEST_P(LayoutLinearFaultTest, IsRefused) {
  Parameters parameters = Grouped();
  GetParam().damage(parameters);
  EXPECT_THAT(Checkpoint(parameters).Find(4), StatusIs(absl::StatusCode::kInvalidArgument, GetParam().message));
}

TEST_P(LayoutBertFaultTest, IsRefused) {
  Parameters parameters = Bert();
  GetParam().damage(parameters);
  EXPECT_THAT(Checkpoint(parameters).Find(2), StatusIs(absl::StatusCode::kInvalidArgument, GetParam().message));
}

const LayoutFault kProjections[] = {
    {"NoKey", Remove("a.k_proj.weight"), "a.k_proj.weight: missing, wanted with the other projections of the layer"},
    {"NoOut", Remove("a.o_proj.weight"), "a.o_proj.weight: missing, wanted with the other projections of the layer"},
    {"TwoOuts", Add({Ones("a.out_proj.weight", {3, 4})}),
     "a.o_proj.weight: found beside a.out_proj.weight, wanted one of the two"},
    {"LoneQuery", Add({Ones("b/q_proj/weight", {8, 2})}),
     "b/k_proj/weight: missing, wanted with the other projections of the layer"},
    {"QueryTwice", Add({Ones("a/q_proj/weight", {8, 2})}),
     "a.q_proj.weight and a/q_proj/weight: are both a/q_proj/weight, wanted one"},
    {"QueryRows", Reshape("a.q_proj.weight", {6, 2}),
     "a.q_proj.weight: shape [6, 2], wanted a multiple of num_heads 4 in the 6 rows of this projection"},
    {"FewerRowsThanHeads", Reshape("a.q_proj.weight", {2, 2}),
     "a.q_proj.weight: shape [2, 2], wanted a multiple of num_heads 4 in the 2 rows of this projection"},
    {"KeyRows", Reshape("a.k_proj.weight", {3, 2}),
     "a.k_proj.weight: shape [3, 2], wanted a number of heads of 2 that divides num_heads 4, to go with "
     "a.q_proj.weight [8, 2], in the 3 rows of this projection"},
    {"KeyHeads", Reshape("a.k_proj.weight", {6, 2}),
     "a.k_proj.weight: shape [6, 2], wanted a number of heads of 2 that divides num_heads 4, to go with "
     "a.q_proj.weight [8, 2], in the 6 rows of this projection"},
    {"ValueRows", Reshape("a.v_proj.weight", {3, 2}),
     "a.v_proj.weight: shape [3, 2], wanted a multiple of the 2 heads of a.k_proj.weight [4, 2] in the 3 rows of this "
     "projection"},
    {"OutColumns", Reshape("a.o_proj.weight", {3, 8}),
     "a.o_proj.weight: shape [3, 8], wanted [3, 4] to go with 4 heads of 1 in a.v_proj.weight [2, 2]"},
    {"Flax", Reshape("a.q_proj.weight", {2, 4, 2}),
     "a.q_proj.weight: shape [2, 4, 2], wanted 2 axes: features out, features in"},
    {"Empty", Reshape("a.v_proj.weight", {0, 2}), "a.v_proj.weight: shape [0, 2], wanted sizes of at least 1"},
    {"KeyBias", Add({Ones("a.k_proj.bias", {8})}),
     "a.k_proj.bias: shape [8], wanted [4] to go with a.k_proj.weight [4, 2]"},
    {"BiasRank", Add({Ones("a.q_proj.bias", {4, 2})}), "a.q_proj.bias: shape [4, 2], wanted 1 axis: features out"},
    {"Integers", MakeIntegers("a.k_proj.weight"),
     "a.k_proj.weight: dtype int32, wanted float32, bfloat16, float16 or float64"},
};

const LayoutFault kBert[] = {
    {"NoQuery", Remove("layer.0.attention.self.query.weight"),
     "layer.0.attention.self.query.weight: missing, wanted with the other projections of the layer"},
    {"NoOut", Remove("layer.0.attention.output.dense.weight"),
     "layer.0.attention.output.dense.weight: missing, wanted with the other projections of the layer"},
    {"OutTransposed", Reshape("layer.0.attention.output.dense.weight", {4, 2}),
     "layer.0.attention.output.dense.weight: shape [4, 2], wanted [4, 4] to go with 2 heads of 2 in "
     "layer.0.attention.self.value.weight [4, 2]"},
};

INSTANTIATE_TEST_SUITE_P(Projections, LayoutLinearFaultTest, ::testing::ValuesIn(kProjections),
                         [](const auto& info) { return info.param.name; });
INSTANTIATE_TEST_SUITE_P(Bert, LayoutBertFaultTest, ::testing::ValuesIn(kBert),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace attention::server
