#include <gmock/gmock.h>

#include <string>
#include <vector>

#include "server/checkpoint/formats/msgpack.h"
#include "tests/testing/matchers.h"
#include "tests/testing/msgpack.h"

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
  std::string message;  // part of it
};

void PrintTo(const Fault& fault, std::ostream* out) { *out << fault.name; }

class MsgpackFaultTest : public ::testing::TestWithParam<Fault> {};

TEST_P(MsgpackFaultTest, IsRefused) {
  // An exact copy, so that an address sanitizer sees every byte read beyond it.
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
    {"Empty", "", "msgpack: ends within its map, after no leaf"},
    {"NumberAsRoot", "\x07", "msgpack: wanted a map, found 7"},
    {"ListAsRoot", "\x90", "msgpack: wanted a map, found a list"},
    {"ArrayAsRoot", PackArray({2}, "uint8", "ab"), "msgpack: wanted a map, found an extension"},
    {"NilAsKey", std::string("\x81\xC0\x01", 3), "msgpack: wanted text or a number as key, found nil"},
    {"MapAsKey", "\x81\x80\x01", "msgpack: wanted text or a number as key, found a map"},
    {"ListAsKey", PackMap({{"a", "\x81\x90\x01"}}), "a: wanted text or a number as key, found a list"},
    {"EmptyKey", PackMap({{"", kNil}}), "the key \"\" is empty"},
    {"KeyNotUtf8", PackMap({{"\xFF", kNil}}), "the key \"\\377\" is empty, not UTF-8"},
    {"KeyWithLineBreak", PackMap({{"a\nb", kNil}}), "the key \"a\\nb\" is empty, not UTF-8 or has a control character"},
    {"LongName", PackMap({{"a", PackMap({{std::string(511, 'b'), kNil}})}}), "makes a name of more than 512 bytes"},
    {"KeyTwice", PackMap({{"a", kNil}, {"b", kNil}, {"a", kNil}}), "a: duplicate key"},
    {"MapTwice", PackMap({{"a", PackMap({{"x", kNil}})}, {"a", PackMap({{"y", kNil}})}}), "a: duplicate key"},
    {"TextAndNumberAsKey",
     "\x82\x07\x01\xA1"
     "7\x01",
     "7: duplicate key"},
    {"JoinedKeyTwice", PackMap({{"a", PackMap({{"b", kNil}})}, {"a/b", kNil}}), "a/b: duplicate key"},
    {"Bytes", PackMap({{"a", PackBytes("x")}}), "a: wanted an array or a number, found bytes"},
    {"TextNotUtf8", PackMap({{"a", PackText("\xC0\x80")}}), "a: text that is not UTF-8"},
    {"NoSuchByte",
     "\x81\xA1"
     "a\xC1",
     "msgpack: byte 3 begins no value"},
    {"Trailing", Small() + "\xC0", "msgpack: wanted nothing behind the map, which ends at byte"},
    {"MapTooShort",
     std::string("\x8F\xA1"
                 "a\x01",
                 4),
     "msgpack: ends within its map, after \"a\""},
    {"MapClaims4Gi",
     "\xDF\xFF\xFF\xFF\xFF\xA1"
     "a",
     "msgpack: ends within its map, after no leaf"},
    {"ListClaims4Gi", PackMap({{"a", "\xDD\xFF\xFF\xFF\xFF"}}), "ends within its map"},
    {"TextClaims4Gi", "\x81\xDB\xFF\xFF\xFF\xFFw", "ends within its map"},
    {"BytesClaim4Gi", PackMap({{"a", "\xC6\xFF\xFF\xFF\xFF"}}), "ends within its map"},
    {"ExtensionClaims4Gi", PackMap({{"a", "\xC9\xFF\xFF\xFF\xFF\x01"}}), "ends within its map"},
    {"Deep", Deep(100'000), "wanted at most 64 levels"},
    {"OtherExtension", PackMap({{"w", PackExtension(77, "abcd")}}), "w: extension type 77: wanted 1 (an array) or 3"},
    {"Complex", PackMap({{"w", PackExtension(2, "abcd")}}), "w: extension type 2: wanted 1 (an array) or 3"},
};

const Fault kArrayFaults[] = {
    {"NoPayload", WithPayload(""), "w: wanted shape, dtype and bytes, found no whole list"},
    {"PayloadNoList", WithPayload("\x80"), "w: wanted shape, dtype and bytes, found a map"},
    {"PayloadOfTwo", WithPayload(PackList({PackList({}), PackText("uint8")})),
     "w: wanted shape, dtype and bytes, found 2"},
    {"PayloadCut", WithPayload(std::string("\x93\x91\x02", 3)),
     "w: wanted shape, dtype and bytes, found no whole list"},
    {"PayloadTrailing", WithPayload(PackArrayPayload({2}, "uint8", "ab") + "x"),
     "w: wanted nothing behind the data, found 1"},
    {"ShapeNumber", WithShape("\x02"), "w: shape: wanted a list, found 2"},
    {"ShapeText", WithShape(PackList({PackText("2")})), "w: shape: wanted whole numbers, none negative, found \"2\""},
    {"ShapeFraction", WithShape(PackList({PackNumber(2.5)})),
     "w: shape: wanted whole numbers, none negative, found 2.5"},
    {"ShapeNested", WithShape(PackList({PackList({})})), "w: shape: wanted whole numbers, none negative, found a list"},
    {"ShapeNegative", WithShape(PackList({"\xFF", "\xFE"})), "w: shape: wanted whole numbers, none negative, found -1"},
    {"ShapeTooLarge", WithShape(PackList({"\xCF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF"})),
     "w: shape: size 18446744073709551615 is too large"},
    {"ShapeOverflows", WithPayload(PackArrayPayload({int64_t{1} << 62, 4}, "uint8", "ab")),
     "w: 2 bytes of data, wanted more than there can be for uint8"},
    {"NineAxes", WithPayload(PackArrayPayload({1, 1, 1, 1, 1, 1, 1, 1, 2}, "uint8", "ab")),
     "w: shape: wanted at most 8 axes, found 9"},
    {"AxesClaim4Gi", WithShape("\xDD\xFF\xFF\xFF\xFF"), "w: shape: wanted at most 8 axes, found 4294967295"},
    {"DTypeNumber", WithPayload(PackList({PackList({}), "\x01", PackBytes("a")})), "w: dtype: wanted text, found 1"},
    {"DTypeObject", WithPayload(PackArrayPayload({2}, "object", "ab")), "w: dtype \"object\": wanted bool"},
    {"DTypeComplex", WithPayload(PackArrayPayload({1}, "complex64", "abcdefgh")),
     "w: dtype \"complex64\": wanted bool"},
    {"DataText", WithPayload(PackList({PackList({}), PackText("uint8"), PackText("a")})),
     "w: data: wanted bytes, found \"a\""},
    {"DataShort", WithPayload(PackArrayPayload({2}, "float32", "abcdefg")),
     "w: 7 bytes of data, wanted 8 for float32 [2]"},
    {"DataLong", WithPayload(PackArrayPayload({}, "uint8", "ab")), "w: 2 bytes of data, wanted 1 for uint8 []"},
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
     "msgpack: wanted a map of names, found an array in chunks"},
    {"ChunkedFalse", PackMap({{"w", PackMap({{"__msgpack_chunked_array__", PackBool(false)}})}}),
     "w: __msgpack_chunked_array__: wanted true"},
    {"OtherKey", PackMap({{"w", PackMap({{"__msgpack_chunked_array__", PackBool(true)}, {"dtype", PackText("x")}})}}),
     "w: wanted shape and chunks, found dtype"},
    {"NoChunks", PackMap({{"w", PackMap({{"__msgpack_chunked_array__", PackBool(true)}, {"shape", kTwo}})}}),
     "w: chunks: wanted at least one"},
    {"ChunksTooShort", WithChunks(kTwo, PackMap({{"0", kA}})), "w: chunks: 1 bytes together, wanted 2 for uint8 [2]"},
    {"ChunkMissing", WithChunks(kTwo, PackMap({{"0", kA}, {"2", kB}})), "w: chunks: number 1 is missing"},
    {"ChunkTwice", WithChunks(kTwo, PackMap({{"0", kA}, {"00", kB}})), "w: chunks: number 1 is missing"},
    {"ChunkNumberText", WithChunks(kTwo, PackMap({{"x", kA}})), "w: chunks: wanted numbers as keys, found x"},
    {"ChunkNumberHuge", WithChunks(kTwo, PackMap({{"0", kA}, {"9223372036854775807", kB}})),
     "w: chunks: number 1 is missing"},
    {"ChunkNoArray", WithChunks(kTwo, PackMap({{"0", PackText("ab")}})), "w: chunk 0: wanted an array of one axis"},
    {"ChunkOfTwoAxes", WithChunks(kTwo, PackMap({{"0", PackArray({1, 2}, "uint8", "ab")}})),
     "w: chunk 0: wanted an array of one axis"},
    {"ChunkInChunks", WithChunks(kTwo, PackMap({{"0", PackChunkedArray({2}, DType::kUInt8, "ab", 1)}})),
     "w: chunk 0: wanted an array of one axis, itself in one piece"},
    {"ChunkOfOtherDType", WithChunks(kTwo, PackMap({{"0", kA}, {"1", PackArray({1}, "int8", "b")}})),
     "w: chunk 1: dtype int8, wanted uint8 as chunk 0"},
    {"ShapeNegative", WithChunks(PackMap({{"0", "\xFE"}}), PackMap({{"0", kA}, {"1", kB}})),
     "w: shape: wanted whole numbers, none negative, found -2"},
    {"ShapeText", WithChunks(PackMap({{"0", PackText("x")}}), PackMap({{"0", kA}})),
     "w: shape: wanted whole numbers, none negative, found x"},
    {"ShapeMissing", WithChunks(PackMap({{"1", "\x02"}}), PackMap({{"0", kA}})), "w: shape: number 0 is missing"},
    {"ShapeOfArrays", WithChunks(PackMap({{"0", kA}}), PackMap({{"0", kA}})),
     "w: shape: wanted whole numbers, none negative, found an array"},
};

INSTANTIATE_TEST_SUITE_P(Tree, MsgpackFaultTest, ::testing::ValuesIn(kTreeFaults),
                         [](const auto& info) { return info.param.name; });
INSTANTIATE_TEST_SUITE_P(Arrays, MsgpackFaultTest, ::testing::ValuesIn(kArrayFaults),
                         [](const auto& info) { return info.param.name; });
INSTANTIATE_TEST_SUITE_P(Chunks, MsgpackFaultTest, ::testing::ValuesIn(kChunkFaults),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace attention::server
