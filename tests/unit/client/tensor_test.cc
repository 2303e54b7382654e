#include "client/tensor.h"

#include <gmock/gmock.h>

#include <cmath>
#include <limits>

#include "tests/testing/matchers.h"

namespace attention {
namespace {

using test::StatusIs;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

template <typename Element>
std::string Bytes(const std::vector<Element>& elements) {
  return {reinterpret_cast<const char*>(elements.data()), elements.size() * sizeof(Element)};
}

TEST(ClientTensorTest, ByteSizeMultipliesElementBytesAndShape) {
  EXPECT_EQ(ByteSize(DataType::kFloat32, {2, 3}).value(), 24);
  EXPECT_EQ(ByteSize(DataType::kBFloat16, {2, 3}).value(), 12);
  EXPECT_EQ(ByteSize(DataType::kFloat16, {2, 3}).value(), 12);
  EXPECT_EQ(ByteSize(DataType::kFloat64, {2, 3}).value(), 48);
  EXPECT_EQ(ByteSize(DataType::kBool, {2, 3}).value(), 6);
  EXPECT_EQ(ByteSize(DataType::kInt32, {2, 3}).value(), 24);
  EXPECT_EQ(ByteSize(DataType::kInt64, {2, 3}).value(), 48);
  EXPECT_EQ(ByteSize(DataType::kFloat32, {}).value(), 4);
  EXPECT_EQ(ByteSize(DataType::kFloat32, {1, 268435456, 2}).value(), 2147483648);
}

TEST(ClientTensorTest, ByteSizeIsZeroIfAnAxisIsEmpty) {
  const int64_t longest = std::numeric_limits<int64_t>::max();
  EXPECT_EQ(ByteSize(DataType::kFloat32, {longest, longest, 0}).value(), 0);
  EXPECT_EQ(ByteSize(DataType::kFloat32, {0, longest, longest}).value(), 0);
}

TEST(ClientTensorTest, ByteSizeRefusesAnOverflow) {
  EXPECT_THAT(ByteSize(DataType::kFloat32, {int64_t{1} << 31, int64_t{1} << 31}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       "shape: expected at most 2^63 - 1 bytes, got [2147483648, 2147483648] of float32"));
  EXPECT_THAT(ByteSize(DataType::kBool, {int64_t{1} << 32, int64_t{1} << 32}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       "shape: expected at most 2^63 - 1 bytes, got [4294967296, 4294967296] of bool"));
}

TEST(ClientTensorTest, ByteSizeRefusesANegativeSize) {
  EXPECT_THAT(ByteSize(DataType::kFloat32, {2, -3}),
              StatusIs(absl::StatusCode::kInvalidArgument, "shape: expected no negative size, got [2, -3]"));
  EXPECT_THAT(ByteSize(DataType::kFloat32, {0, -3}),
              StatusIs(absl::StatusCode::kInvalidArgument, "shape: expected no negative size, got [0, -3]"));
}

TEST(ClientTensorTest, ByteSizeRefusesAnUnknownType) {
  EXPECT_THAT(ByteSize(static_cast<DataType>(6), {1}),
              StatusIs(absl::StatusCode::kInvalidArgument, "dtype: expected a known data type, got 6"));
  EXPECT_EQ(Name(static_cast<DataType>(6)), "unknown");
}

TEST(ClientTensorTest, FloatsConvertsEveryType) {
  EXPECT_THAT((Tensor{DataType::kFloat32, {2}, Bytes<float>({1.5f, -0.1f})}.Floats()), ElementsAre(1.5f, -0.1f));
  EXPECT_THAT((Tensor{DataType::kFloat64, {2}, Bytes<double>({1.5, -0.1})}.Floats()), ElementsAre(1.5f, -0.1f));
  EXPECT_THAT((Tensor{DataType::kBool, {2}, Bytes<uint8_t>({1, 0})}.Floats()), ElementsAre(1.0f, 0.0f));
  EXPECT_THAT((Tensor{DataType::kBFloat16, {3}, Bytes<uint16_t>({0x3fc0, 0xc000, 0x0000})}.Floats()),
              ElementsAre(1.5f, -2.0f, 0.0f));
  EXPECT_THAT((Tensor{DataType::kInt32, {2}, Bytes<int32_t>({7, -1})}.Floats()), ElementsAre(7.0f, -1.0f));
  EXPECT_THAT((Tensor{DataType::kInt64, {2}, Bytes<int64_t>({7, -1})}.Floats()), ElementsAre(7.0f, -1.0f));
  EXPECT_THAT((Tensor{DataType::kFloat32, {0}, ""}.Floats()), IsEmpty());
}

TEST(ClientTensorTest, IntegersIsEmptyForOtherTypes) {
  const int64_t large = (int64_t{1} << 53) + 1;
  EXPECT_THAT((Tensor{DataType::kInt32, {2}, Bytes<int32_t>({7, -1})}.Integers()), ElementsAre(7, -1));
  EXPECT_THAT((Tensor{DataType::kInt64, {2}, Bytes<int64_t>({large, -large})}.Integers()), ElementsAre(large, -large));
  EXPECT_THAT((Tensor{DataType::kFloat32, {1}, Bytes<float>({1})}.Integers()), IsEmpty());
}

TEST(ClientTensorTest, IntegerReferencesPointAtTheNumbers) {
  const std::vector<int32_t> narrow = {1, -2};
  const std::vector<int64_t> wide = {3, -4}, shape = {2};
  EXPECT_EQ(Int32(narrow, shape).dtype, DataType::kInt32);
  EXPECT_EQ(Int32(narrow, shape).bytes.data(), reinterpret_cast<const char*>(narrow.data()));
  EXPECT_EQ(Int32(narrow, shape).bytes.size(), 8u);
  EXPECT_EQ(Int64(wide, shape).dtype, DataType::kInt64);
  EXPECT_EQ(Int64(wide, shape).bytes.data(), reinterpret_cast<const char*>(wide.data()));
  EXPECT_EQ(Int64(wide, shape).bytes.size(), 16u);
  EXPECT_EQ(Name(DataType::kInt32), "int32");
  EXPECT_EQ(Name(DataType::kInt64), "int64");
}

TEST(ClientTensorTest, FloatsConvertsFloat16AtTheLimitsOfItsRange) {
  struct Case {
    uint16_t bits;
    float expected;
  };
  const Case cases[] = {
      {0x3e00, 1.5f},          {0xc000, -2.0f},    {0x7bff, 65504.0f},  {0x0400, 0x1p-14f}, {0x0001, 0x1p-24f},
      {0x83ff, -0x1.ff8p-15f}, {0x7c00, INFINITY}, {0xfc00, -INFINITY}, {0x0000, 0.0f},     {0x3c01, 1.0009765625f},
  };
  for (const Case& c : cases) {
    EXPECT_THAT((Tensor{DataType::kFloat16, {1}, Bytes<uint16_t>({c.bits})}.Floats()), ElementsAre(c.expected))
        << std::hex << c.bits;
  }
  EXPECT_TRUE(std::isnan(Tensor{DataType::kFloat16, {1}, Bytes<uint16_t>({0x7e00})}.Floats()[0]));
  EXPECT_TRUE(std::signbit(Tensor{DataType::kFloat16, {1}, Bytes<uint16_t>({0x8000})}.Floats()[0]));
}

TEST(ClientTensorTest, ReferencePointsAtTheTensor) {
  const Tensor tensor{DataType::kFloat16, {1, 2}, "abcd"};
  const TensorRef reference = tensor;
  EXPECT_EQ(reference.dtype, DataType::kFloat16);
  EXPECT_THAT(reference.shape, ElementsAre(1, 2));
  EXPECT_EQ(reference.bytes.data(), tensor.bytes.data());
  EXPECT_EQ(reference.bytes.size(), 4u);
  static_assert(!std::is_convertible_v<Tensor, TensorRef>, "a temporary would dangle");
}

}  // namespace
}  // namespace attention
