// The layouts bert and projections, with values that were calculated by hand.

#include <gmock/gmock.h>

#include "tests/testing/matchers.h"
#include "tests/unit/checkpoint/layouts/layouts_fixture.h"

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

// Four query heads of two, two key heads of two and two value heads of one, from inputs of two features.
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

TEST(BertLayoutTest, TransposesEachMatrixAndKeepsTheOrderOfTheHeads) {
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

// The feed-forward network of a block has an "output.dense" too.
TEST(BertLayoutTest, ListsTheRestOfTheBlockAsUnused) {
  const Checkpoint checkpoint(Bert() + Parameters{Ones("layer.0.output.dense.weight", {2, 8}),
                                                  Ones("layer.0.intermediate.dense.weight", {8, 2}),
                                                  Ones("layer.0.attention.output.LayerNorm.weight", {2})});
  const absl::StatusOr<CheckpointLayers> found = checkpoint.Find(2);
  ASSERT_THAT(found, IsOk());
  EXPECT_EQ(found->layers.size(), 1);
  EXPECT_THAT(found->unused_tensors, ElementsAre("layer.0.attention.output.LayerNorm.weight",
                                                 "layer.0.intermediate.dense.weight", "layer.0.output.dense.weight"));
}

TEST(ProjectionsLayoutTest, ReadsGroupedHeadsOfTwoSizes) {
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

TEST(ProjectionsLayoutTest, AcceptsTheOtherNameOfTheOutput) {
  const Checkpoint checkpoint(Grouped("out_proj") + Parameters{Ones("a.out_proj.bias", {3})});
  const absl::StatusOr<CheckpointLayers> found = checkpoint.Find(4);
  ASSERT_THAT(found, IsOk());
  EXPECT_THAT(found->unused_tensors, IsEmpty());
  const LayerParameters read = ReadParameters(found->layers[0]);
  EXPECT_THAT(read.out_kernel, ElementsAre(500, 510, 520, 501, 511, 521, 502, 512, 522, 503, 513, 523));
  EXPECT_THAT(read.out_bias, ElementsAre(1, 1, 1));
}

// The keys of Whisper have no bias.
TEST(ProjectionsLayoutTest, AcceptsEachBiasAlone) {
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

TEST(ProjectionsLayoutTest, IgnoresAnOutputProjectionAlone) {
  const Checkpoint checkpoint(Grouped() +
                              Parameters{Ones("mlp.out_proj.weight", {2, 2}), Ones("mlp.o_proj.bias", {2})});
  const absl::StatusOr<CheckpointLayers> found = checkpoint.Find(4);
  ASSERT_THAT(found, IsOk());
  EXPECT_THAT(found->unused_tensors, ElementsAre("mlp.o_proj.bias", "mlp.out_proj.weight"));
}

class ProjectionsLayoutFaultsTest : public ::testing::TestWithParam<LayoutFault> {};
class BertLayoutFaultsTest : public ::testing::TestWithParam<LayoutFault> {};

TEST_P(ProjectionsLayoutFaultsTest, IsRefused) {
  Parameters parameters = Grouped();
  GetParam().damage(parameters);
  EXPECT_THAT(Checkpoint(parameters).Find(4), StatusIs(absl::StatusCode::kInvalidArgument, GetParam().message));
}

TEST_P(BertLayoutFaultsTest, IsRefused) {
  Parameters parameters = Bert();
  GetParam().damage(parameters);
  EXPECT_THAT(Checkpoint(parameters).Find(2), StatusIs(absl::StatusCode::kInvalidArgument, GetParam().message));
}

const LayoutFault kProjections[] = {
    {"NoKey", Remove("a.k_proj.weight"), "a.k_proj.weight: missing, required with the other projections of the layer"},
    {"NoOut", Remove("a.o_proj.weight"), "a.o_proj.weight: missing, required with the other projections of the layer"},
    {"TwoOuts", Add({Ones("a.out_proj.weight", {3, 4})}),
     "a.o_proj.weight: expected either this tensor or a.out_proj.weight, got both"},
    {"LoneQuery", Add({Ones("b/q_proj/weight", {8, 2})}),
     "b/k_proj/weight: missing, required with the other projections of the layer"},
    {"DuplicateQuery", Add({Ones("a/q_proj/weight", {8, 2})}),
     "a/q_proj/weight: expected one tensor, got a.q_proj.weight and a/q_proj/weight"},
    {"QueryRows", Reshape("a.q_proj.weight", {6, 2}),
     "a.q_proj.weight: expected a multiple of num_heads 4 as query rows, got 6 in shape [6, 2]"},
    {"FewerRowsThanHeads", Reshape("a.q_proj.weight", {2, 2}),
     "a.q_proj.weight: expected a multiple of num_heads 4 as query rows, got 2 in shape [2, 2]"},
    {"KeyRows", Reshape("a.k_proj.weight", {3, 2}),
     "a.k_proj.weight: expected key rows for heads of 2, as in a.q_proj.weight [8, 2], whose number divides num_heads "
     "4, got 3 in shape [3, 2]"},
    {"KeyHeads", Reshape("a.k_proj.weight", {6, 2}),
     "a.k_proj.weight: expected key rows for heads of 2, as in a.q_proj.weight [8, 2], whose number divides num_heads "
     "4, got 6 in shape [6, 2]"},
    {"ValueRows", Reshape("a.v_proj.weight", {3, 2}),
     "a.v_proj.weight: expected a multiple of the 2 heads in a.k_proj.weight [4, 2] as value rows, got 3 in shape [3, "
     "2]"},
    {"OutColumns", Reshape("a.o_proj.weight", {3, 8}),
     "a.o_proj.weight: expected shape [3, 4] to match 4 heads of 1 in a.v_proj.weight [2, 2], got shape [3, 8]"},
    {"Flax", Reshape("a.q_proj.weight", {2, 4, 2}),
     "a.q_proj.weight: expected shape [out_features, in_features], got shape [2, 4, 2]"},
    {"Empty", Reshape("a.v_proj.weight", {0, 2}),
     "a.v_proj.weight: expected shape [out_features, in_features] with sizes of at least 1, got shape [0, 2]"},
    {"KeyBias", Add({Ones("a.k_proj.bias", {8})}),
     "a.k_proj.bias: expected shape [4] to match a.k_proj.weight [4, 2], got shape [8]"},
    {"BiasRank", Add({Ones("a.q_proj.bias", {4, 2})}),
     "a.q_proj.bias: expected shape [out_features], got shape [4, 2]"},
    {"Integers", MakeIntegers("a.k_proj.weight"),
     "a.k_proj.weight: expected dtype float32, bfloat16, float16 or float64, got int32"},
};

const LayoutFault kBert[] = {
    {"NoQuery", Remove("layer.0.attention.self.query.weight"),
     "layer.0.attention.self.query.weight: missing, required with the other projections of the layer"},
    {"NoOut", Remove("layer.0.attention.output.dense.weight"),
     "layer.0.attention.output.dense.weight: missing, required with the other projections of the layer"},
    {"OutTransposed", Reshape("layer.0.attention.output.dense.weight", {4, 2}),
     "layer.0.attention.output.dense.weight: expected shape [4, 4] to match 2 heads of 2 in "
     "layer.0.attention.self.value.weight [4, 2], got shape [4, 2]"},
};

INSTANTIATE_TEST_SUITE_P(Projections, ProjectionsLayoutFaultsTest, ::testing::ValuesIn(kProjections),
                         [](const auto& info) { return info.param.name; });
INSTANTIATE_TEST_SUITE_P(Bert, BertLayoutFaultsTest, ::testing::ValuesIn(kBert),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace attention::server
