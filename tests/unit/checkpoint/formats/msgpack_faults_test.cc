#include <gmock/gmock.h>

#include <string>
#include <vector>

#include "server/checkpoint/formats/msgpack.h"
#include "tests/testing/files/msgpack.h"
#include "tests/testing/matchers.h"

namespace attention::server {
namespace {

using ::attention::test::PackArray;
using ::attention::test::PackArrayPayload;
using ::attention::test::PackBool;
using ::attention::test::PackBytes;
using ::attention::test::PackChunkedArray;
using ::attention::test::PackExtension;
using ::attention::test::PackList;
using ::attention::test::PackMap;
using ::attention::test::PackNumber;
using ::attention::test::PackText;
using ::attention::test::StatusIs;
using ::testing::HasSubstr;

const std::string kNil = "\xC0";

std::string Small() { return PackMap({{"w", PackArray({2}, "uint8", "ab")}}); }

struct Fault {
  std::string name;
  std::string file;
  std::string message;  // part of the expected error
};

void PrintTo(const Fault& fault, std::ostream* out) { *out << fault.name; }

class MsgpackFaultsTest : public ::testing::TestWithParam<Fault> {};

TEST_P(MsgpackFaultsTest, IsRefused) {
  // An exact copy, so that the address sanitizer detects any read past its end.
  const std::vector<char> file(GetParam().file.begin(), GetParam().file.end());
  EXPECT_THAT(ParseMsgpack({reinterpret_cast<const std::byte*>(file.data()), file.size()}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(GetParam().message)));
}

std::string Deep(int levels) {
  std::string file;
  for (int i = 0; i < levels; ++i)
    file +=
        "\x81\xA1"
        "a";
  return file + "\x80";
}

std::string WithPayload(const std::string& payload) { return PackMap({{"w", PackExtension(1, payload)}}); }

std::string WithShape(const std::string& packed_shape) {
  return WithPayload(PackList({packed_shape, PackText("uint8"), PackBytes("ab")}));
}

const Fault kTreeFaults[] = {
    {"Empty", "", "msgpack: the file ends within its map, after no leaf"},
    {"NumberAsRoot", "\x07", "msgpack: expected a map, got 7"},
    {"ListAsRoot", "\x90", "msgpack: expected a map, got a list"},
    {"ArrayAsRoot", PackArray({2}, "uint8", "ab"), "msgpack: expected a map, got an extension"},
    {"NilAsKey", std::string("\x81\xC0\x01", 3), "msgpack: expected text or a number as key, got nil"},
    {"MapAsKey", "\x81\x80\x01", "msgpack: expected text or a number as key, got a map"},
    {"ListAsKey", PackMap({{"a", "\x81\x90\x01"}}), "a: expected text or a number as key, got a list"},
    {"LongName", PackMap({{"a", PackMap({{std::string(511, 'b'), kNil}})}}),
     "a: expected a name of at most 512 bytes, got key \"bbb"},
    {"DuplicateKey", PackMap({{"a", kNil}, {"b", kNil}, {"a", kNil}}), "a: duplicate key"},
    {"DuplicateMap", PackMap({{"a", PackMap({{"x", kNil}})}, {"a", PackMap({{"y", kNil}})}}), "a: duplicate key"},
    {"TextAndNumberAsKey",
     "\x82\x07\x01\xA1"
     "7\x01",
     "7: duplicate key"},
    {"DuplicateJoinedKey", PackMap({{"a", PackMap({{"b", kNil}})}, {"a/b", kNil}}), "a/b: duplicate key"},
    {"InvalidByte",
     "\x81\xA1"
     "a\xC1",
     "msgpack: byte 3 does not start a value"},
    {"Trailing", Small() + "\xC0", "msgpack: expected the end of the file after the map, at byte 19, got 20 bytes"},
    {"MapTooShort",
     std::string("\x8F\xA1"
                 "a\x01",
                 4),
     "msgpack: the file ends within its map, after \"a\""},
    {"MapClaims4Gi",
     "\xDF\xFF\xFF\xFF\xFF\xA1"
     "a",
     "msgpack: the file ends within its map, after no leaf"},
    {"ListClaims4Gi", PackMap({{"a", "\xDD\xFF\xFF\xFF\xFF"}}), "the file ends within its map"},
    {"TextClaims4Gi", "\x81\xDB\xFF\xFF\xFF\xFFw", "the file ends within its map"},
    {"BytesClaim4Gi", PackMap({{"a", "\xC6\xFF\xFF\xFF\xFF"}}), "the file ends within its map"},
    {"ExtensionClaims4Gi", PackMap({{"a", "\xC9\xFF\xFF\xFF\xFF\x01"}}), "the file ends within its map"},
    {"Deep", Deep(100'000), ": expected at most 64 levels, got more"},
};

const Fault kArrayFaults[] = {
    {"NoPayload", WithPayload(""), "w: array: expected shape, dtype and bytes, got an incomplete list"},
    {"PayloadNoList", WithPayload("\x80"), "w: array: expected shape, dtype and bytes, got a map"},
    {"PayloadOfTwo", WithPayload(PackList({PackList({}), PackText("uint8")})),
     "w: array: expected shape, dtype and bytes, got a list of 2"},
    {"PayloadCut", WithPayload(std::string("\x93\x91\x02", 3)),
     "w: array: expected shape, dtype and bytes, got an incomplete list"},
    {"PayloadTrailing", WithPayload(PackArrayPayload({2}, "uint8", "ab") + "x"),
     "w: array: expected 13 bytes of shape, dtype and bytes, got 14"},
    {"ShapeNumber", WithShape("\x02"), "w: shape: expected a list, got 2"},
    {"ShapeText", WithShape(PackList({PackText("2")})), "w: shape: expected integers of at least 0, got \"2\""},
    {"ShapeFraction", WithShape(PackList({PackNumber(2.5)})), "w: shape: expected integers of at least 0, got 2.5"},
    {"ShapeNested", WithShape(PackList({PackList({})})), "w: shape: expected integers of at least 0, got a list"},
    {"ShapeNegative", WithShape(PackList({"\xFF", "\xFE"})), "w: shape: expected integers of at least 0, got -1"},
    {"ShapeTooLarge", WithShape(PackList({"\xCF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF"})),
     "w: shape: expected sizes below 2^63, got 18446744073709551615"},
    {"ShapeOverflows", WithPayload(PackArrayPayload({int64_t{1} << 62, 4}, "uint8", "ab")),
     "w: data: expected 2^63 or more bytes for uint8 [4611686018427387904, 4], got 2"},
    {"AxesClaim4Gi", WithShape("\xDD\xFF\xFF\xFF\xFF"), "w: shape: expected integers of at least 0, got \"uint8\""},
    {"DTypeNumber", WithPayload(PackList({PackList({}), "\x01", PackBytes("a")})), "w: dtype: expected text, got 1"},
    {"DataText", WithPayload(PackList({PackList({}), PackText("uint8"), PackText("a")})),
     "w: data: expected bytes, got \"a\""},
    {"DataShort", WithPayload(PackArrayPayload({2}, "float32", "abcdefg")),
     "w: data: expected 8 bytes for float32 [2], got 7"},
    {"DataLong", WithPayload(PackArrayPayload({}, "uint8", "ab")), "w: data: expected 1 byte for uint8 [], got 2"},
};

std::string WithChunks(const std::string& packed_shape, const std::string& packed_chunks) {
  return PackMap(
      {{"w",
        PackMap({{"__msgpack_chunked_array__", PackBool(true)}, {"shape", packed_shape}, {"chunks", packed_chunks}})}});
}

const std::string kTwo = PackMap({{"0", PackNumber(int64_t{2})}});
const std::string kA = PackArray({1}, "uint8", "a"), kB = PackArray({1}, "uint8", "b");

const Fault kChunkFaults[] = {
    {"ChunkedRoot", PackChunkedArray({1, 2}, DType::kUInt8, "ab", 1),
     "msgpack: expected a map of names, got an array in chunks"},
    {"ChunkedFalse", PackMap({{"w", PackMap({{"__msgpack_chunked_array__", PackBool(false)}})}}),
     "w: __msgpack_chunked_array__: expected true, got false"},
    {"OtherKey", PackMap({{"w", PackMap({{"__msgpack_chunked_array__", PackBool(true)}, {"dtype", PackText("x")}})}}),
     "w: keys: expected shape and chunks, got dtype"},
    {"NoChunks", PackMap({{"w", PackMap({{"__msgpack_chunked_array__", PackBool(true)}, {"shape", kTwo}})}}),
     "w: chunks: expected at least 1, got 0"},
    {"ChunksTooShort", WithChunks(kTwo, PackMap({{"0", kA}})), "w: chunks: expected 2 bytes for uint8 [2], got 1"},
    {"ChunkMissing", WithChunks(kTwo, PackMap({{"0", kA}, {"2", kB}})), "w: chunks: number 1 is missing"},
    {"DuplicateChunk", WithChunks(kTwo, PackMap({{"0", kA}, {"00", kB}})), "w: chunks: number 1 is missing"},
    {"ChunkNumberText", WithChunks(kTwo, PackMap({{"x", kA}})), "w: chunks: expected numbers as keys, got x"},
    {"ChunkNumberHuge", WithChunks(kTwo, PackMap({{"0", kA}, {"9223372036854775807", kB}})),
     "w: chunks: number 1 is missing"},
    {"ChunkNoArray", WithChunks(kTwo, PackMap({{"0", PackText("ab")}})),
     "w: chunk 0: expected an array of one axis that is not in chunks itself, got ab"},
    {"ChunkOfTwoAxes", WithChunks(kTwo, PackMap({{"0", PackArray({1, 2}, "uint8", "ab")}})),
     "w: chunk 0: expected an array of one axis that is not in chunks itself, got [1, 2]"},
    {"ChunkInChunks", WithChunks(kTwo, PackMap({{"0", PackChunkedArray({2}, DType::kUInt8, "ab", 1)}})),
     "w: chunk 0: expected an array of one axis that is not in chunks itself, got an array in chunks"},
    {"ChunkOfOtherDType", WithChunks(kTwo, PackMap({{"0", kA}, {"1", PackArray({1}, "int8", "b")}})),
     "w: chunk 1: expected dtype uint8 as in chunk 0, got int8"},
    {"ShapeNegative", WithChunks(PackMap({{"0", "\xFE"}}), PackMap({{"0", kA}, {"1", kB}})),
     "w: shape: expected integers of at least 0, got -2"},
    {"ShapeText", WithChunks(PackMap({{"0", PackText("x")}}), PackMap({{"0", kA}})),
     "w: shape: expected integers of at least 0, got x"},
    {"ShapeMissing", WithChunks(PackMap({{"1", "\x02"}}), PackMap({{"0", kA}})), "w: shape: number 0 is missing"},
    {"ShapeOfArrays", WithChunks(PackMap({{"0", kA}}), PackMap({{"0", kA}})),
     "w: shape: expected integers of at least 0, got an array"},
};

INSTANTIATE_TEST_SUITE_P(Tree, MsgpackFaultsTest, ::testing::ValuesIn(kTreeFaults),
                         [](const auto& info) { return info.param.name; });
INSTANTIATE_TEST_SUITE_P(Arrays, MsgpackFaultsTest, ::testing::ValuesIn(kArrayFaults),
                         [](const auto& info) { return info.param.name; });
INSTANTIATE_TEST_SUITE_P(Chunks, MsgpackFaultsTest, ::testing::ValuesIn(kChunkFaults),
                         [](const auto& info) { return info.param.name; });

TEST(MsgpackTest, ReadsTheOtherArraysBesideOneThatNoLayerCanUse) {
  struct Foreign {
    std::string key, value;
    std::string name, message;
  };
  const std::string dtype = "w: dtype: expected bool, bfloat16 or a numpy float or integer type, got ";
  const std::string extension = "w: expected extension type 1 (an array) or 3 (a numpy scalar), got ";
  const std::string key = "expected a key in UTF-8 that is not empty and has no control character, got ";
  const std::string array = PackArray({2}, "uint8", "ab");
  for (const Foreign& c :
       std::vector<Foreign>{{"w", PackArray({2}, "object", "ab"), "w", dtype + "\"object\""},
                            {"w", PackArray({1}, "complex64", "abcdefgh"), "w", dtype + "\"complex64\""},
                            {"w", PackChunkedArray({2}, DType::kUInt8, "ab", 1), "w", ""},
                            {"w", PackArray({1, 1, 1, 1, 1, 1, 1, 1, 2}, "uint8", "ab"), "w",
                             "w: shape: expected at most 8 axes, got 9"},
                            {"w", PackExtension(77, "abcd"), "w", extension + "77"},
                            {"w", PackExtension(2, "abcd"), "w", extension + "2"},
                            {"w", PackBytes("x"), "w", "w: expected an array or a number, got bytes"},
                            {"w", PackText("\xC0\x80"), "w", "w: expected text in UTF-8, got \"\\300\\200\""},
                            {"", array, "\"\"", "msgpack: " + key + "\"\""},
                            {"\xFF", array, "\\377", "msgpack: " + key + "\"\\377\""},
                            {"a\nb", PackMap({{"w", array}}), "a\\nb/w", "msgpack: " + key + "\"a\\nb\""},
                            {"a\nb", PackMap({{"w", PackChunkedArray({2}, DType::kUInt8, "ab", 1)}}), "a\\nb/w",
                             "msgpack: " + key + "\"a\\nb\""}}) {
    const std::string file = PackMap({{c.key, c.value}, {"z", array}});
    const absl::StatusOr<TensorMap> map = ParseMsgpack({reinterpret_cast<const std::byte*>(file.data()), file.size()});
    ASSERT_TRUE(map.ok()) << map.status();
    ASSERT_EQ(map->tensors.size(), 2u);
    const NamedTensor* const foreign = map->Find(c.name);
    ASSERT_NE(foreign, nullptr) << c.name;
    EXPECT_EQ(foreign->usable.message(), c.message);
    EXPECT_EQ(foreign->data.empty(), !foreign->usable.ok());
    EXPECT_TRUE(map->Find("z")->usable.ok());
    EXPECT_TRUE(map->metadata.empty());
  }
}

}  // namespace
}  // namespace attention::server
