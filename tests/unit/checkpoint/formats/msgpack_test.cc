#include "server/checkpoint/formats/msgpack.h"

#include <gmock/gmock.h>

#include <string>
#include <vector>

#include "tests/testing/files/msgpack.h"
#include "tests/testing/matchers.h"

namespace attention::server {
namespace {

using ::attention::test::IsOk;
using ::attention::test::PackArray;
using ::attention::test::PackArrayPayload;
using ::attention::test::PackBool;
using ::attention::test::PackChunkedArray;
using ::attention::test::PackExtension;
using ::attention::test::PackList;
using ::attention::test::PackMap;
using ::attention::test::PackNumber;
using ::attention::test::PackText;
using ::attention::test::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

absl::Span<const std::byte> Bytes(const std::string& file) {
  return {reinterpret_cast<const std::byte*>(file.data()), file.size()};
}

absl::StatusOr<TensorMap> Parse(const std::string& file) { return ParseMsgpack(Bytes(file)); }

std::string Data(const NamedTensor& tensor) {
  return {reinterpret_cast<const char*>(tensor.data.data()), tensor.data.size()};
}

const std::string kNil = "\xC0";

std::string Small() { return PackMap({{"w", PackArray({2}, "uint8", "ab")}}); }

TEST(MsgpackTest, JoinsKeysAndPointsIntoTheFile) {
  const std::string kernel = PackArray({1, 2}, "float32", "abcdefgh"), bias = PackArray({2}, "bfloat16", "ABCD");
  const std::string file =
      PackMap({{"params", PackMap({{"query", PackMap({{"kernel", kernel}, {"bias", bias}})}, {"none", kNil}})}});
  const absl::StatusOr<TensorMap> map = Parse(file);
  ASSERT_THAT(map, IsOk());
  ASSERT_EQ(map->tensors.size(), 2u);
  EXPECT_EQ(map->tensors[0].name, "params/query/bias");
  EXPECT_EQ(map->tensors[0].dtype, DType::kBFloat16);
  EXPECT_EQ(map->tensors[0].shape, Shape({2}));
  EXPECT_EQ(map->tensors[1].name, "params/query/kernel");
  EXPECT_EQ(map->tensors[1].shape, Shape({1, 2}));
  const auto* const place = reinterpret_cast<const std::byte*>(file.data()) + file.find("abcdefgh");
  EXPECT_EQ(map->tensors[1].data.data(), place);
  EXPECT_TRUE(map->storage.empty());
  EXPECT_TRUE(map->metadata.empty());
}

TEST(MsgpackTest, ReadsEveryDType) {
  for (const DType dtype :
       {DType::kFloat32, DType::kBFloat16, DType::kFloat16, DType::kFloat64, DType::kBool, DType::kInt8, DType::kUInt8,
        DType::kInt16, DType::kUInt16, DType::kInt32, DType::kUInt32, DType::kInt64, DType::kUInt64}) {
    const std::string name(DTypeName(dtype));
    const absl::StatusOr<TensorMap> map =
        Parse(PackMap({{"w", PackArray({1}, name, std::string(DTypeSize(dtype), '\0'))}}));
    ASSERT_THAT(map, IsOk()) << name;
    EXPECT_EQ(map->tensors[0].dtype, dtype);
  }
}

TEST(MsgpackTest, ReadsNumbersAndTextAsMetadata) {
  const std::string file =
      PackMap({{"big", PackNumber(int64_t{1} << 40)},
               {"flag", PackBool(true)},
               {"kind", PackText("demo")},
               {"layer0", PackMap({{"num_heads", PackNumber(int64_t{8})}})},
               {"negative", PackNumber(int64_t{-3})},
               {"numpy", PackExtension(3, PackArrayPayload({}, "int16", std::string("\xFE\xFF", 2)))},
               {"step", PackArray({}, "int32", std::string("\x07\0\0\0", 4))},
               {"tolerance", PackNumber(1e-5)}});
  const absl::StatusOr<TensorMap> map = Parse(file);
  ASSERT_THAT(map, IsOk());
  EXPECT_TRUE(map->tensors.empty());
  EXPECT_THAT(map->metadata, ElementsAre(Pair("big", "1099511627776"), Pair("flag", "true"), Pair("kind", "demo"),
                                         Pair("layer0/num_heads", "8"), Pair("negative", "-3"), Pair("numpy", "-2"),
                                         Pair("step", "7"), Pair("tolerance", "1e-05")));
}

TEST(MsgpackTest, NumbersListItemsAndReadsNumbersAsKeys) {
  const std::string file = PackMap({{"a", PackList({Small(), PackNumber(int64_t{5})})}, {"b", "\x81\x07\x01"}});
  const absl::StatusOr<TensorMap> map = Parse(file);
  ASSERT_THAT(map, IsOk());
  EXPECT_EQ(map->tensors[0].name, "a/0/w");
  EXPECT_THAT(map->metadata, ElementsAre(Pair("a/1", "5"), Pair("b/7", "1")));
}

TEST(MsgpackTest, ReadsEmptyMapsListsAndArrays) {
  EXPECT_THAT(Parse(PackMap({})), IsOk());
  const absl::StatusOr<TensorMap> map =
      Parse(PackMap({{"a", PackMap({})}, {"b", PackList({})}, {"c", PackArray({0, 3}, "float32", "")}}));
  ASSERT_THAT(map, IsOk());
  EXPECT_EQ(map->Find("c")->shape, Shape({0, 3}));
}

TEST(MsgpackTest, JoinsChunksInNumericalOrder) {
  const std::string bytes = "abcdefghijklmnopqrstuvwx";
  const std::string chunked = PackChunkedArray({3, 4}, DType::kFloat16, bytes, 2);  // 12 chunks: "10" comes after "9"
  const absl::StatusOr<TensorMap> map = Parse(PackMap({{"w", chunked}, {"v", Small()}}));
  ASSERT_THAT(map, IsOk());
  ASSERT_EQ(map->tensors.size(), 2u);
  EXPECT_EQ(map->Find("w")->dtype, DType::kFloat16);
  EXPECT_EQ(map->Find("w")->shape, Shape({3, 4}));
  EXPECT_EQ(Data(*map->Find("w")), bytes);
  EXPECT_TRUE(map->metadata.empty());
}

TEST(MsgpackTest, ReadsChunksInAnyOrder) {
  const std::string chunks = PackMap({{"1", PackArray({1}, "uint8", "b")}, {"0", PackArray({1}, "uint8", "a")}});
  const std::string shape = PackMap({{"1", PackNumber(int64_t{2})}, {"0", PackNumber(int64_t{1})}});
  const absl::StatusOr<TensorMap> map = Parse(
      PackMap({{"w", PackMap({{"chunks", chunks}, {"shape", shape}, {"__msgpack_chunked_array__", PackBool(true)}})}}));
  ASSERT_THAT(map, IsOk());
  EXPECT_EQ(map->tensors[0].shape, Shape({1, 2}));
  EXPECT_EQ(Data(map->tensors[0]), "ab");
}

TEST(MsgpackTest, LeavesASingleChunkInTheFile) {
  const absl::StatusOr<TensorMap> map = Parse(PackMap({{"w", PackChunkedArray({1, 2}, DType::kUInt8, "ab", 2)}}));
  ASSERT_THAT(map, IsOk());
  EXPECT_TRUE(map->storage.empty());
}

TEST(MsgpackTest, BoundsTheNumberOfKeys) {
  const auto parse = [](size_t count) {
    return Parse(PackMap({{"a", PackList(std::vector<std::string>(count, "\1"))}}));
  };
  EXPECT_THAT(parse(99'999), IsOk());
  EXPECT_THAT(parse(100'000), StatusIs(absl::StatusCode::kInvalidArgument,
                                       HasSubstr("a/99999: expected at most 100000 keys, got more")));
}

TEST(MsgpackTest, RefusesTruncatedFilesButAcceptsThemAsStarts) {
  const std::string whole = PackMap(
      {{"a", PackMap({{"w", PackArray({2}, "uint8", "ab")}})}, {"c", PackChunkedArray({4}, DType::kUInt8, "abcd", 2)}});
  ASSERT_THAT(Parse(whole), IsOk());
  for (size_t size = 0; size < whole.size(); ++size) {
    const std::string cut = whole.substr(0, size);
    EXPECT_THAT(Parse(cut), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("the file ends within its map")))
        << size;
    EXPECT_THAT(CheckMsgpackStart(Bytes(cut)), IsOk()) << size;
  }
}

TEST(MsgpackTest, RefusesTheStartOfAnInvalidFile) {
  const std::string bad = PackMap({{"a", kNil}, {"w", PackArray({3}, "uint8", "ab")}, {"z", kNil}});
  const size_t known_at = bad.find("ab") + 2;
  EXPECT_THAT(CheckMsgpackStart(Bytes(bad.substr(0, known_at - 1))), IsOk());
  EXPECT_THAT(CheckMsgpackStart(Bytes(bad.substr(0, known_at))),
              StatusIs(absl::StatusCode::kInvalidArgument, "w: data: expected 3 bytes for uint8 [3], got 2"));
}

TEST(MsgpackTest, SurvivesEveryChangedByte) {
  const std::string whole = PackMap(
      {{"a", PackMap({{"w", PackArray({2}, "uint8", "ab")}})}, {"c", PackChunkedArray({4}, DType::kUInt8, "abcd", 2)}});
  for (size_t i = 0; i < whole.size(); ++i) {
    for (int value = 0; value < 256; ++value) {
      std::string changed = whole;
      changed[i] = static_cast<char>(value);
      const absl::StatusOr<TensorMap> map = Parse(changed);
      if (!map.ok()) continue;
      for (const NamedTensor& tensor : map->tensors) {
        if (!tensor.usable.ok()) continue;
        ASSERT_EQ(static_cast<int64_t>(tensor.data.size()), ByteCount(tensor.shape, tensor.dtype)) << i << " " << value;
      }
    }
  }
}

}  // namespace
}  // namespace attention::server
