#include "server/checkpoint/tensor.h"

#include <gmock/gmock.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

namespace attention::server {
namespace {

using ::testing::ElementsAre;

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// Converts numbers, given by their bits, from an unaligned address.
template <typename Bits>
std::vector<float> Widen(DType dtype, const std::vector<Bits>& bits) {
  std::vector<std::byte> bytes(1 + bits.size() * sizeof(Bits));
  std::memcpy(bytes.data() + 1, bits.data(), bits.size() * sizeof(Bits));
  std::vector<float> values(bits.size());
  ToFloat32(dtype, bytes.data() + 1, values.size(), values.data());
  return values;
}

// Converts numbers to their bits at an unaligned address.
template <typename Bits>
std::vector<Bits> Narrow(DType dtype, const std::vector<float>& values) {
  std::vector<std::byte> bytes(1 + values.size() * sizeof(Bits));
  FromFloat32(values.data(), values.size(), dtype, bytes.data() + 1);
  std::vector<Bits> bits(values.size());
  std::memcpy(bits.data(), bytes.data() + 1, bits.size() * sizeof(Bits));
  return bits;
}

TEST(TensorTest, KnowsSizeNameAndKindOfEveryDType) {
  struct Case {
    DType dtype;
    int64_t size;
    absl::string_view name;
    bool is_float;
  };
  const Case cases[] = {
      {DType::kFloat32, 4, "float32", true}, {DType::kBFloat16, 2, "bfloat16", true},
      {DType::kFloat16, 2, "float16", true}, {DType::kFloat64, 8, "float64", true},
      {DType::kBool, 1, "bool", false},      {DType::kInt8, 1, "int8", false},
      {DType::kUInt8, 1, "uint8", false},    {DType::kInt16, 2, "int16", false},
      {DType::kUInt16, 2, "uint16", false},  {DType::kInt32, 4, "int32", false},
      {DType::kUInt32, 4, "uint32", false},  {DType::kInt64, 8, "int64", false},
      {DType::kUInt64, 8, "uint64", false},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(std::string(c.name));
    EXPECT_EQ(DTypeSize(c.dtype), c.size);
    EXPECT_EQ(DTypeName(c.dtype), c.name);
    EXPECT_EQ(IsFloat(c.dtype), c.is_float);
  }
}

TEST(TensorTest, WritesShapes) {
  EXPECT_EQ(ShapeString({}), "[]");
  EXPECT_EQ(ShapeString({7}), "[7]");
  EXPECT_EQ(ShapeString({1, 2, 3}), "[1, 2, 3]");
}

TEST(TensorTest, CountsElements) {
  constexpr int64_t kHuge = std::numeric_limits<int64_t>::max();
  EXPECT_EQ(ElementCount({}), 1);
  EXPECT_EQ(ElementCount({2, 3, 4}), 24);
  EXPECT_EQ(ElementCount({2, 0, 4}), 0);
  EXPECT_EQ(ElementCount({kHuge}), kHuge);
  EXPECT_EQ(ElementCount({kHuge, 2}), std::nullopt);
  EXPECT_EQ(ElementCount({-1}), std::nullopt);
  EXPECT_EQ(ElementCount({1, -2, -3}), std::nullopt);
}

TEST(TensorTest, CountsBytes) {
  EXPECT_EQ(ByteCount({2, 3}, DType::kFloat64), 48);
  EXPECT_EQ(ByteCount({int64_t{1} << 60}, DType::kFloat32), int64_t{1} << 62);
  EXPECT_EQ(ByteCount({int64_t{1} << 61}, DType::kFloat32), std::nullopt);
  EXPECT_EQ(ByteCount({-4}, DType::kFloat32), std::nullopt);
}

TEST(TensorTest, WidensBFloat16Exactly) {
  EXPECT_THAT(Widen<uint16_t>(DType::kBFloat16,
                              {0x3F80, 0xBF80, 0x3F81, 0x7F7F, 0x0080, 0x3EAB, 0xC2F7, 0x4049, 0x7F80, 0x0001}),
              ElementsAre(1.0f, -1.0f, 1.0078125f, 3.38953139e38f, 1.17549435e-38f, 0.333984375f, -123.5f, 3.140625f,
                          kInfinity, std::bit_cast<float>(0x00010000)));
}

TEST(TensorTest, WidensFloat16Exactly) {
  EXPECT_THAT(Widen<uint16_t>(DType::kFloat16, {0x3C00, 0x3C01, 0x7BFF, 0x0400, 0x0001, 0x3555, 0xD7B8, 0xFC00}),
              ElementsAre(1.0f, 1.0009765625f, 65504.0f, 0x1p-14f, 0x1p-24f, 0.333251953125f, -123.5f, -kInfinity));
}

TEST(TensorTest, KeepsTheSignOfZero) {
  EXPECT_TRUE(std::signbit(Widen<uint16_t>(DType::kFloat16, {0x8000})[0]));
  EXPECT_TRUE(std::signbit(Widen<uint16_t>(DType::kBFloat16, {0x8000})[0]));
  EXPECT_THAT(Narrow<uint16_t>(DType::kFloat16, {-0.0f}), ElementsAre(0x8000));
  EXPECT_THAT(Narrow<uint16_t>(DType::kBFloat16, {-0.0f}), ElementsAre(0x8000));
}

TEST(TensorTest, RoundsFloat64ToNearestEven) {
  EXPECT_THAT(Widen<double>(DType::kFloat64, {0.1, 1 + 0x1p-24, 1 + 0x3p-24, 1e300, -1e300, 0x1p-149}),
              ElementsAre(0.1f, 1.0f, 1 + 0x1p-22f, kInfinity, -kInfinity, 0x1p-149f));
}

TEST(TensorTest, RoundsToBFloat16NearestEven) {
  // Halfway between two neighbours, slightly above that, and the largest numbers.
  EXPECT_THAT(Narrow<uint16_t>(DType::kBFloat16, {1 + 0x1p-8f, 1 + 0x3p-8f, 1 + 0x1p-8f + 0x1p-23f,
                                                  std::numeric_limits<float>::max(), -kInfinity}),
              ElementsAre(0x3F80, 0x3F82, 0x3F81, 0x7F80, 0xFF80));
}

TEST(TensorTest, RoundsToFloat16NearestEven) {
  EXPECT_THAT(Narrow<uint16_t>(DType::kFloat16, {1 + 0x1p-11f, 1 + 0x3p-11f, 65519.0f, 65520.0f, -1e9f, 0x1p-24f,
                                                 0x1p-25f, 0x3p-25f, 1e-30f}),
              ElementsAre(0x3C00, 0x3C02, 0x7BFF, 0x7C00, 0xFC00, 0x0001, 0x0000, 0x0002, 0x0000));
}

TEST(TensorTest, KeepsNaN) {
  // The payload of the second one is only in bits that bfloat16 does not have.
  const std::vector<float> nans = {std::numeric_limits<float>::quiet_NaN(), std::bit_cast<float>(0x7F800001)};
  for (const DType dtype : {DType::kBFloat16, DType::kFloat16}) {
    const std::vector<uint16_t> narrow = Narrow<uint16_t>(dtype, nans);
    for (const float value : Widen<uint16_t>(dtype, narrow)) EXPECT_TRUE(std::isnan(value)) << DTypeName(dtype);
  }
}

TEST(TensorTest, ReturnsEveryHalfToItsBits) {
  for (const DType dtype : {DType::kBFloat16, DType::kFloat16}) {
    std::vector<uint16_t> bits;
    for (uint32_t i = 0; i <= 0xFFFF; ++i) {
      if (!std::isnan(Widen<uint16_t>(dtype, {static_cast<uint16_t>(i)})[0])) bits.push_back(static_cast<uint16_t>(i));
    }
    EXPECT_EQ(Narrow<uint16_t>(dtype, Widen(dtype, bits)), bits) << DTypeName(dtype);
  }
}

}  // namespace
}  // namespace attention::server
