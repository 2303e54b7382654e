// The torch layout, with values that were calculated by hand.

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
using ::testing::ElementsAre;
using ::testing::IsEmpty;

// Four features, two heads of two. Rows 0 to 3 of the matrix are the query, 4 to 7 the key, 8 to 11 the value.
Parameters Packed() {
  return {Counted("a.in_proj_weight", 12, 4),
          FloatParameter("a.in_proj_bias", {12}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}),
          Counted("a.out_proj.weight", 4, 4, 500), FloatParameter("a.out_proj.bias", {4}, {20, 21, 22, 23})};
}

// Key inputs of two features, value inputs of three.
Parameters Separate() {
  return {Counted("a.q_proj_weight", 4, 4),
          Counted("a.k_proj_weight", 4, 2, 100),
          Counted("a.v_proj_weight", 4, 3, 200),
          FloatParameter("a.in_proj_bias", {12}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}),
          Counted("a.out_proj.weight", 4, 4, 500),
          FloatParameter("a.out_proj.bias", {4}, {20, 21, 22, 23})};
}

TEST(TorchLayoutTest, SplitsThePackedMatrixAndTransposesEachPart) {
  const Checkpoint checkpoint(Packed());
  const absl::StatusOr<CheckpointLayers> found = checkpoint.Find(2);
  ASSERT_THAT(found, IsOk());
  EXPECT_THAT(found->unused_tensors, IsEmpty());
  ASSERT_EQ(found->layers.size(), 1);
  const LayerTensors& layer = found->layers[0];
  EXPECT_EQ(layer.name, "ocr/a");
  EXPECT_EQ(layer.layout, "torch");
  EXPECT_EQ(layer.query.kernel.shape, Shape({4, 2, 2}));
  EXPECT_EQ(layer.value.bias.shape, Shape({2, 2}));
  EXPECT_EQ(layer.out.kernel.shape, Shape({2, 2, 4}));
  EXPECT_EQ(layer.out.bias.shape, Shape({4}));
  const LayerParameters read = ReadParameters(layer);
  EXPECT_EQ(read.shape.in_features, 4);
  EXPECT_EQ(read.shape.heads.num_heads, 2);
  EXPECT_EQ(read.shape.heads.num_kv_heads, 2);
  EXPECT_EQ(read.shape.heads.head_dim, 2);
  EXPECT_EQ(read.shape.heads.value_head_dim, 2);
  EXPECT_EQ(read.shape.out_features, 4);
  EXPECT_THAT(read.query_kernel, ElementsAre(0, 10, 20, 30, 1, 11, 21, 31, 2, 12, 22, 32, 3, 13, 23, 33));
  EXPECT_THAT(read.key_kernel, ElementsAre(40, 50, 60, 70, 41, 51, 61, 71, 42, 52, 62, 72, 43, 53, 63, 73));
  EXPECT_THAT(read.value_kernel, ElementsAre(80, 90, 100, 110, 81, 91, 101, 111, 82, 92, 102, 112, 83, 93, 103, 113));
  EXPECT_THAT(read.out_kernel,
              ElementsAre(500, 510, 520, 530, 501, 511, 521, 531, 502, 512, 522, 532, 503, 513, 523, 533));
  EXPECT_THAT(read.query_bias, ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(read.key_bias, ElementsAre(4, 5, 6, 7));
  EXPECT_THAT(read.value_bias, ElementsAre(8, 9, 10, 11));
  EXPECT_THAT(read.out_bias, ElementsAre(20, 21, 22, 23));
}

TEST(TorchLayoutTest, ListsThePackedTensorsOnce) {
  const Checkpoint checkpoint(Packed());
  const absl::StatusOr<CheckpointLayers> found = checkpoint.Find(2);
  ASSERT_THAT(found, IsOk());
  const std::vector<ParameterInfo>& parameters = found->layers[0].parameters;
  ASSERT_EQ(parameters.size(), 4);
  EXPECT_EQ(parameters[0].name, "in_proj_bias");
  EXPECT_EQ(parameters[1].name, "in_proj_weight");
  EXPECT_EQ(parameters[1].shape, Shape({12, 4}));
  EXPECT_EQ(parameters[2].name, "out_proj.bias");
  EXPECT_EQ(Float32Bytes(parameters), 4 * (48 + 12 + 16 + 4));
}

TEST(TorchLayoutTest, ReadsSeparateMatricesOfDifferentWidthsWithAPackedBias) {
  const Checkpoint checkpoint(Separate());
  const absl::StatusOr<CheckpointLayers> found = checkpoint.Find(2);
  ASSERT_THAT(found, IsOk());
  const LayerParameters read = ReadParameters(found->layers[0]);
  EXPECT_EQ(read.shape.in_features, 4);
  EXPECT_EQ(read.shape.in_k_features, 2);
  EXPECT_EQ(read.shape.in_v_features, 3);
  EXPECT_THAT(read.query_kernel, ElementsAre(0, 10, 20, 30, 1, 11, 21, 31, 2, 12, 22, 32, 3, 13, 23, 33));
  EXPECT_THAT(read.key_kernel, ElementsAre(100, 110, 120, 130, 101, 111, 121, 131));
  EXPECT_THAT(read.value_kernel, ElementsAre(200, 210, 220, 230, 201, 211, 221, 231, 202, 212, 222, 232));
  EXPECT_THAT(read.query_bias, ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(read.key_bias, ElementsAre(4, 5, 6, 7));
  EXPECT_THAT(read.value_bias, ElementsAre(8, 9, 10, 11));
}

TEST(TorchLayoutTest, ReadsMissingBiasesAsZero) {
  Parameters parameters = Packed();
  Remove("a.in_proj_bias")(parameters);
  Remove("a.out_proj.bias")(parameters);
  const Checkpoint checkpoint(parameters);
  const absl::StatusOr<CheckpointLayers> found = checkpoint.Find(2);
  ASSERT_THAT(found, IsOk());
  const LayerParameters read = ReadParameters(found->layers[0]);
  EXPECT_THAT(read.query_bias, IsEmpty());
  EXPECT_THAT(read.key_bias, IsEmpty());
  EXPECT_THAT(read.value_bias, IsEmpty());
  EXPECT_THAT(read.out_bias, IsEmpty());
}

TEST(TorchLayoutTest, ReadsNarrowTypes) {
  const uint16_t bits[] = {0x3F80, 0x4000, 0xC2F7, 0x3F00};  // 1, 2, -123.5, 0.5
  Parameters parameters = {
      {"in_proj_weight", DType::kBFloat16, {6, 2}, std::string(24, '\0')},
      {"out_proj.weight", DType::kBFloat16, {2, 2}, std::string(reinterpret_cast<const char*>(bits), sizeof(bits))}};
  const Checkpoint checkpoint(parameters);
  const absl::StatusOr<CheckpointLayers> found = checkpoint.Find(1);
  ASSERT_THAT(found, IsOk());
  EXPECT_EQ(found->layers[0].name, "ocr");
  EXPECT_THAT(ReadParameters(found->layers[0]).out_kernel, ElementsAre(1, -123.5, 2, 0.5));
}

class TorchLayoutFaultsTest : public ::testing::TestWithParam<LayoutFault> {};
class TorchLayoutSeparateFaultsTest : public ::testing::TestWithParam<LayoutFault> {};

TEST_P(TorchLayoutFaultsTest, IsRefused) {
  Parameters parameters = Packed();
  GetParam().damage(parameters);
  EXPECT_THAT(Checkpoint(parameters).Find(2), StatusIs(absl::StatusCode::kInvalidArgument, GetParam().message));
}

TEST_P(TorchLayoutSeparateFaultsTest, IsRefused) {
  Parameters parameters = Separate();
  GetParam().damage(parameters);
  EXPECT_THAT(Checkpoint(parameters).Find(2), StatusIs(absl::StatusCode::kInvalidArgument, GetParam().message));
}

const LayoutFault kPacked[] = {
    {"NoOut", Remove("a.out_proj.weight"),
     "a.out_proj.weight: missing, required with the other projections of the layer"},
    {"NotThreeTimes", Reshape("a.in_proj_weight", {8, 4}),
     "a.in_proj_weight: expected shape [3 · embed, embed], got shape [8, 4]"},
    {"NotSquare", Reshape("a.in_proj_weight", {12, 2}),
     "a.in_proj_weight: expected shape [3 · embed, embed], got shape [12, 2]"},
    {"Rank", Reshape("a.in_proj_weight", {48}), "a.in_proj_weight: expected shape [3 · embed, embed], got shape [48]"},
    {"OddFeatures", Reshape("a.in_proj_weight", {9, 3}),
     "a.in_proj_bias: expected shape [9] to match a.in_proj_weight [9, 3], got shape [12]"},
    {"BiasRank", Reshape("a.in_proj_bias", {3, 4}),
     "a.in_proj_bias: expected shape [out_features of query, key and value], got shape [3, 4]"},
    {"BiasOfQueryAlone", Reshape("a.in_proj_bias", {4}),
     "a.in_proj_bias: expected shape [12] to match a.in_proj_weight [12, 4], got shape [4]"},
    {"OutColumns", Reshape("a.out_proj.weight", {4, 6}),
     "a.out_proj.weight: expected shape [4, 4] to match 2 heads of 2 in a.in_proj_weight [12, 4], got shape [4, 6]"},
    {"OutBias", Reshape("a.out_proj.bias", {5}),
     "a.out_proj.bias: expected shape [4] to match a.out_proj.weight [4, 4], got shape [5]"},
    {"Integers", MakeIntegers("a.in_proj_weight"),
     "a.in_proj_weight: expected dtype float32, bfloat16, float16 or float64, got int32"},
    {"BothWays", Add({Ones("a.k_proj_weight", {4, 4})}),
     "a.k_proj_weight: expected either this tensor or a.in_proj_weight, got both"},
};

const LayoutFault kSeparate[] = {
    {"NoKey", Remove("a.k_proj_weight"), "a.k_proj_weight: missing, required with the other projections of the layer"},
    {"NoQuery", Remove("a.q_proj_weight"),
     "a.q_proj_weight: missing, required with the other projections of the layer"},
    {"ValueRank", Reshape("a.v_proj_weight", {12}),
     "a.v_proj_weight: expected shape [out_features, in_features], got shape [12]"},
    {"OddQuery", Reshape("a.q_proj_weight", {3, 4}),
     "a.in_proj_bias: expected shape [11] to match a.q_proj_weight [3, 4], got shape [12]"},
};

INSTANTIATE_TEST_SUITE_P(Packed, TorchLayoutFaultsTest, ::testing::ValuesIn(kPacked),
                         [](const auto& info) { return info.param.name; });
INSTANTIATE_TEST_SUITE_P(Separate, TorchLayoutSeparateFaultsTest, ::testing::ValuesIn(kSeparate),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace attention::server
