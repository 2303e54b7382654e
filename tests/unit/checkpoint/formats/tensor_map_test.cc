#include "server/checkpoint/formats/tensor_map.h"

#include <gmock/gmock.h>

#include <limits>
#include <string>

#include "tests/testing/matchers.h"

namespace attention::server {
namespace {

using ::attention::test::IsOk;
using ::attention::test::StatusIs;

TEST(TensorMapTest, FindsTensorsByNameOnceTheyAreSorted) {
  TensorMap map;
  for (const char* name : {"c", "a", "b"}) map.tensors.push_back({.name = name, .shape = {}, .data = {}});
  ASSERT_THAT(SortByName(map.tensors), IsOk());
  for (const char* name : {"a", "b", "c"}) EXPECT_EQ(map.Find(name)->name, name);
  EXPECT_EQ(map.Find("d"), nullptr);
}

TEST(TensorMapTest, RefusesDuplicateNames) {
  std::vector<NamedTensor> tensors(2, NamedTensor{.name = "w", .shape = {}, .data = {}});
  EXPECT_THAT(SortByName(tensors), StatusIs(absl::StatusCode::kInvalidArgument, "w: duplicate tensor name"));
}

TEST(TensorMapTest, ComparesBytesWithTheShape) {
  const auto error = [](absl::string_view message) { return StatusIs(absl::StatusCode::kInvalidArgument, message); };
  EXPECT_THAT(CheckByteCount("data", DType::kFloat32, {2, 3}, 24), IsOk());
  EXPECT_THAT(CheckByteCount("data", DType::kFloat32, {2, 3}, 23),
              error("data: expected 24 bytes for float32 [2, 3], got 23"));
  EXPECT_THAT(CheckByteCount("w: data", DType::kUInt8, {}, 0), error("w: data: expected 1 byte for uint8 [], got 0"));
  EXPECT_THAT(CheckByteCount("data", DType::kInt64, {int64_t{1} << 60}, 0),
              error("data: expected 2^63 or more bytes for int64 [1152921504606846976], got 0"));
}

struct Utf8Case {
  const char* name;
  absl::string_view text;
  bool is_utf8;
};

TEST(TensorMapTest, RecognisesUtf8) {
  const Utf8Case cases[] = {
      {"empty", "", true},
      {"ASCII", "a/b", true},
      {"two bytes", "\xC2\x80\xDF\xBF", true},
      {"three bytes", "\xE0\xA0\x80\xED\x9F\xBF\xEE\x80\x80\xEF\xBF\xBF", true},
      {"four bytes", "\xF0\x90\x80\x80\xF4\x8F\xBF\xBF", true},
      {"zero", absl::string_view("\0", 1), true},
      {"continuation first", "\x80", false},
      {"overlong, two bytes", "\xC0\x80", false},
      {"overlong, three bytes", "\xE0\x9F\xBF", false},
      {"overlong, four bytes", "\xF0\x8F\xBF\xBF", false},
      {"surrogate", "\xED\xA0\x80", false},
      {"last surrogate", "\xED\xBF\xBF", false},
      {"beyond Unicode", "\xF4\x90\x80\x80", false},
      {"five bytes", "\xF8\x88\x80\x80\x80", false},
      {"cut", "a\xE2\x82", false},
      {"no continuation", "\xC3(", false},
  };
  for (const Utf8Case& c : cases) EXPECT_EQ(IsUtf8(c.text), c.is_utf8) << c.name;
}

TEST(TensorMapTest, RecognisesControlCharacters) {
  EXPECT_FALSE(HasControlCharacter("a b~é"));
  EXPECT_TRUE(HasControlCharacter("a\nb"));
  EXPECT_TRUE(HasControlCharacter("\x7F"));
  EXPECT_TRUE(HasControlCharacter(absl::string_view("a\0", 2)));
}

template <typename T>
std::string TextOf(DType dtype, T value) {
  return NumberText({"", dtype, {}, {reinterpret_cast<const std::byte*>(&value), sizeof(value)}});
}

TEST(TensorMapTest, WritesNumbersOfEveryType) {
  EXPECT_EQ(TextOf(DType::kBool, uint8_t{0}), "false");
  EXPECT_EQ(TextOf(DType::kBool, uint8_t{2}), "true");
  EXPECT_EQ(TextOf(DType::kInt8, int8_t{-128}), "-128");
  EXPECT_EQ(TextOf(DType::kUInt8, uint8_t{65}), "65");
  EXPECT_EQ(TextOf(DType::kInt16, int16_t{-32768}), "-32768");
  EXPECT_EQ(TextOf(DType::kUInt16, uint16_t{65535}), "65535");
  EXPECT_EQ(TextOf(DType::kInt32, int32_t{-7}), "-7");
  EXPECT_EQ(TextOf(DType::kUInt32, uint32_t{4294967295}), "4294967295");
  EXPECT_EQ(TextOf(DType::kInt64, std::numeric_limits<int64_t>::min()), "-9223372036854775808");
  EXPECT_EQ(TextOf(DType::kUInt64, std::numeric_limits<uint64_t>::max()), "18446744073709551615");
  EXPECT_EQ(TextOf(DType::kFloat64, 0.1), "0.1");
  EXPECT_EQ(TextOf(DType::kFloat64, -1e300), "-1e+300");
  EXPECT_EQ(TextOf(DType::kFloat32, 0.1f), "0.1");
  EXPECT_EQ(TextOf(DType::kFloat32, std::numeric_limits<float>::infinity()), "inf");
  EXPECT_EQ(TextOf(DType::kFloat16, uint16_t{0x3C00}), "1");
  EXPECT_EQ(TextOf(DType::kBFloat16, uint16_t{0x4049}), "3.140625");
  EXPECT_EQ(NumberText(2.5), "2.5");
}

}  // namespace
}  // namespace attention::server
