#include "server/rpc/proto_conversion.h"

#include <gtest/gtest.h>

#include <cctype>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "tests/testing/server/wire.h"

namespace attention::server {
namespace {

// The values of a proto enum except UNSPECIFIED.
template <typename Enum>
std::vector<Enum> KnownValues(const google::protobuf::EnumDescriptor* descriptor) {
  std::vector<Enum> values;
  for (int i = 0; i < descriptor->value_count(); ++i) {
    if (descriptor->value(i)->number() != 0) values.push_back(static_cast<Enum>(descriptor->value(i)->number()));
  }
  return values;
}

TEST(ProtoConversionTest, ConvertsEveryDataTypeThereAndBack) {
  const auto values = KnownValues<v1::DataType>(v1::DataType_descriptor());
  EXPECT_EQ(values.size(), 13u);
  for (const v1::DataType value : values) {
    const std::optional<DType> dtype = DTypeFromProto(value);
    ASSERT_TRUE(dtype) << v1::DataType_Name(value);
    EXPECT_EQ(DTypeToProto(*dtype), value);
    // DATA_TYPE_FLOAT32 is "float32".
    std::string name(DTypeName(*dtype));
    for (char& c : name) c = static_cast<char>(std::toupper(c));
    EXPECT_EQ("DATA_TYPE_" + name, v1::DataType_Name(value));
  }
}

TEST(ProtoConversionTest, ConvertsEveryEmptyRowRule) {
  EXPECT_EQ(KnownValues<v1::EmptyRows>(v1::EmptyRows_descriptor()).size(), 3u);
  EXPECT_EQ(EmptyRowRuleFromProto(v1::EMPTY_ROWS_UNIFORM), EmptyRowRule::kUniform);
  EXPECT_EQ(EmptyRowRuleFromProto(v1::EMPTY_ROWS_ZERO), EmptyRowRule::kZero);
  EXPECT_EQ(EmptyRowRuleFromProto(v1::EMPTY_ROWS_ERROR), EmptyRowRule::kError);
}

TEST(ProtoConversionTest, ConvertsEveryHeadLayout) {
  EXPECT_EQ(KnownValues<v1::HeadLayout::Axes>(v1::HeadLayout::Axes_descriptor()).size(), 3u);
  EXPECT_EQ(HeadAxesFromProto(v1::HeadLayout::AXES_LENGTH_FEATURES), HeadAxes::kLengthHeads);
  EXPECT_EQ(HeadAxesFromProto(v1::HeadLayout::AXES_LENGTH_HEADS), HeadAxes::kLengthHeads);
  EXPECT_EQ(HeadAxesFromProto(v1::HeadLayout::AXES_HEADS_LENGTH), HeadAxes::kHeadsLength);
}

TEST(ProtoConversionTest, ConvertsEveryBatchCloseReason) {
  std::set<v1::BatchCloseReason> converted;
  for (const BatchCloseReason reason :
       {BatchCloseReason::kQueueDrained, BatchCloseReason::kTimeout, BatchCloseReason::kMaxRequests,
        BatchCloseReason::kMaxTokens, BatchCloseReason::kMaxCost}) {
    converted.insert(BatchCloseReasonToProto(reason));
  }
  const auto values = KnownValues<v1::BatchCloseReason>(v1::BatchCloseReason_descriptor());
  EXPECT_EQ(converted, std::set<v1::BatchCloseReason>(values.begin(), values.end()));
  EXPECT_EQ(BatchCloseReasonToProto(BatchCloseReason::kMaxTokens), v1::BATCH_CLOSE_REASON_MAX_TOKENS);
}

TEST(ProtoConversionTest, ReturnsNothingForUnspecifiedAndUnknownNumbers) {
  for (const int number : {0, -7, 99}) {
    EXPECT_FALSE(DTypeFromProto(static_cast<v1::DataType>(number)));
    EXPECT_FALSE(EmptyRowRuleFromProto(static_cast<v1::EmptyRows>(number)));
    EXPECT_FALSE(HeadAxesFromProto(static_cast<v1::HeadLayout::Axes>(number)));
  }
}

TEST(ProtoConversionTest, NamesDataTypesInMessages) {
  EXPECT_EQ(DataTypeText(v1::DATA_TYPE_BFLOAT16), "bfloat16");
  EXPECT_EQ(DataTypeText(v1::DATA_TYPE_UNSPECIFIED), "unspecified");
  EXPECT_EQ(DataTypeText(static_cast<v1::DataType>(9999)), "9999");
}

TEST(ProtoConversionTest, ViewsATensorWithoutCopying) {
  const v1::Tensor tensor = test::WireFloats({1, 2}, {3, 4});
  const TensorView view = ViewOf(tensor);
  EXPECT_EQ(view.dtype, DType::kFloat32);
  EXPECT_EQ(view.shape, Shape({1, 2}));
  EXPECT_EQ(view.data, reinterpret_cast<const std::byte*>(tensor.data().data()));
}

}  // namespace
}  // namespace attention::server
