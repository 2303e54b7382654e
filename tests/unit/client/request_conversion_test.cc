#include <gmock/gmock.h>

#include "client/internal/conversion.h"
#include "tests/testing/matchers.h"

namespace attention {
namespace {

using ::testing::ElementsAre;

TEST(ClientRequestConversionTest, KeepsEveryField) {
  const int64_t shape[] = {1, 2};
  const float q[] = {1, 2};
  const float k[] = {3, 4};
  const float v[] = {5, 6};
  const uint8_t visible[] = {0, 1};
  const v1::AttendRequest proto = ToProto({.weight_set = "ocr/layer0",
                                           .version = 3,
                                           .alias = "stable",
                                           .inputs_q = Float32(q, shape),
                                           .inputs_k = Float32(k, shape),
                                           .inputs_v = Float32(v, shape),
                                           .mask = {.dense = Bool(visible, shape)},
                                           .return_attn_weights = true,
                                           .return_intermediates = true,
                                           .output_dtype = DataType::kBFloat16,
                                           .request_id = "id",
                                           .priority = -5});
  EXPECT_EQ(proto.weight_set(), "ocr/layer0");
  EXPECT_EQ(proto.version(), 3);
  EXPECT_EQ(proto.alias(), "stable");
  EXPECT_EQ(proto.inputs_q().dtype(), v1::DATA_TYPE_FLOAT32);
  EXPECT_THAT(proto.inputs_q().shape(), ElementsAre(1, 2));
  EXPECT_EQ(proto.inputs_q().data(), std::string(reinterpret_cast<const char*>(q), sizeof(q)));
  EXPECT_EQ(proto.inputs_k().data(), std::string(reinterpret_cast<const char*>(k), sizeof(k)));
  EXPECT_EQ(proto.inputs_v().data(), std::string(reinterpret_cast<const char*>(v), sizeof(v)));
  EXPECT_EQ(proto.mask().dense().dtype(), v1::DATA_TYPE_BOOL);
  EXPECT_EQ(proto.mask().dense().data(), std::string("\0\1", 2));
  EXPECT_TRUE(proto.options().return_attn_weights());
  EXPECT_TRUE(proto.options().return_intermediates());
  EXPECT_EQ(proto.options().output_dtype(), v1::DATA_TYPE_BFLOAT16);
  EXPECT_EQ(proto.request_id(), "id");
  EXPECT_EQ(proto.priority(), -5);
}

TEST(ClientRequestConversionTest, KeepsEveryOption) {
  const int64_t shape[] = {2};
  const float bias[] = {7, 8};
  const v1::AttendRequest proto =
      ToProto({.bias = Float32(bias, shape),
               .heads = HeadLayout{.num_heads = 4, .num_kv_heads = 2, .axes = HeadAxes::kHeadsLength},
               .scale = 0.0f,
               .softcap = 30.0f,
               .empty_rows = EmptyRows::kError,
               .return_mean_attn_weights = true,
               .return_log_sum_exp = true,
               .top_k = 5,
               .compute_dtype = DataType::kBFloat16});
  EXPECT_EQ(proto.bias().data(), std::string(reinterpret_cast<const char*>(bias), sizeof(bias)));
  EXPECT_EQ(proto.heads().num_heads(), 4);
  EXPECT_EQ(proto.heads().num_kv_heads(), 2);
  EXPECT_EQ(proto.heads().axes(), v1::HeadLayout::AXES_HEADS_LENGTH);
  EXPECT_TRUE(proto.options().has_scale());
  EXPECT_EQ(proto.options().scale(), 0);
  EXPECT_EQ(proto.options().softcap(), 30);
  EXPECT_EQ(proto.options().empty_rows(), v1::EMPTY_ROWS_ERROR);
  EXPECT_TRUE(proto.options().return_mean_attn_weights());
  EXPECT_TRUE(proto.options().return_log_sum_exp());
  EXPECT_EQ(proto.options().top_k(), 5);
  EXPECT_EQ(proto.options().compute_dtype(), v1::DATA_TYPE_BFLOAT16);
}

TEST(ClientRequestConversionTest, KeepsEveryPartOfTheMask) {
  const int64_t shape[] = {2};
  const int32_t q_ids[] = {1, 2};
  const int64_t kv_ids[] = {3, 4};
  const int64_t kv_lengths[] = {0, 300};
  const int64_t q_lengths[] = {5};
  const v1::Mask mask = ToProto({.mask = {.causal = -7,
                                          .window = SlidingWindow{.diagonal = Corner::kBottomRight, .left = 0},
                                          .kv_lengths = kv_lengths,
                                          .q_lengths = q_lengths,
                                          .q_segment_ids = Int32(q_ids, shape),
                                          .kv_segment_ids = Int64(kv_ids, shape)}})
                            .mask();
  EXPECT_FALSE(mask.has_dense());
  EXPECT_EQ(mask.causal().position_case(), v1::Diagonal::kOffset);
  EXPECT_EQ(mask.causal().offset(), -7);
  EXPECT_EQ(mask.window().diagonal().corner(), v1::Diagonal::CORNER_BOTTOM_RIGHT);
  EXPECT_TRUE(mask.window().has_left());
  EXPECT_EQ(mask.window().left(), 0);
  EXPECT_FALSE(mask.window().has_right());
  EXPECT_THAT(mask.kv_lengths(), ElementsAre(0, 300));
  EXPECT_THAT(mask.q_lengths(), ElementsAre(5));
  EXPECT_EQ(mask.q_segment_ids().dtype(), v1::DATA_TYPE_INT32);
  EXPECT_EQ(mask.q_segment_ids().data(), std::string(reinterpret_cast<const char*>(q_ids), sizeof(q_ids)));
  EXPECT_EQ(mask.kv_segment_ids().dtype(), v1::DATA_TYPE_INT64);
  EXPECT_EQ(mask.kv_segment_ids().data(), std::string(reinterpret_cast<const char*>(kv_ids), sizeof(kv_ids)));
}

TEST(ClientRequestConversionTest, KeepsAnOffsetOfZero) {
  EXPECT_EQ(ToProto({.mask = {.causal = 0}}).mask().causal().position_case(), v1::Diagonal::kOffset);
  EXPECT_EQ(ToProto({.mask = {.causal = Corner::kTopLeft}}).mask().causal().corner(), v1::Diagonal::CORNER_TOP_LEFT);
}

TEST(ClientRequestConversionTest, KeepsAMaskOfOneTensor) {
  const int64_t shape[] = {1};
  const int32_t id[] = {1};
  EXPECT_TRUE(ToProto({.mask = {.q_segment_ids = Int32(id, shape)}}).mask().has_q_segment_ids());
  EXPECT_TRUE(ToProto({.mask = {.kv_segment_ids = Int32(id, shape)}}).mask().has_kv_segment_ids());
}

TEST(ClientRequestConversionTest, OmitsFieldsThatAreNotSet) {
  const v1::AttendRequest proto = ToProto({.weight_set = "demo", .empty_rows = EmptyRows::kUniform});
  EXPECT_TRUE(proto.has_inputs_q());
  EXPECT_FALSE(proto.has_inputs_k());
  EXPECT_FALSE(proto.has_inputs_v());
  EXPECT_FALSE(proto.has_mask());
  EXPECT_FALSE(proto.has_bias());
  EXPECT_FALSE(proto.has_heads());
  EXPECT_FALSE(proto.has_options());
}

TEST(ClientRequestConversionTest, OmitsOptionsThatAreNotSet) {
  const v1::AttendOptions options = ToProto({.return_attn_weights = true}).options();
  EXPECT_TRUE(options.return_attn_weights());
  EXPECT_FALSE(options.has_scale());
  EXPECT_FALSE(options.has_softcap());
  EXPECT_EQ(options.compute_dtype(), v1::DATA_TYPE_UNSPECIFIED);
  EXPECT_EQ(options.output_dtype(), v1::DATA_TYPE_UNSPECIFIED);
  EXPECT_EQ(options.empty_rows(), v1::EMPTY_ROWS_UNSPECIFIED);
}

}  // namespace
}  // namespace attention
