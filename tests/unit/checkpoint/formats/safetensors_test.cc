#include "server/checkpoint/formats/safetensors.h"

#include <gmock/gmock.h>

#include <algorithm>

#include "tests/testing/matchers.h"

namespace attention::server {
namespace {

using ::attention::test::IsOk;
using ::attention::test::StatusIs;
using ::testing::HasSubstr;
using ::testing::SizeIs;

using Bytes = std::vector<std::byte>;

Bytes ToBytes(absl::string_view text) {
  const auto* const data = reinterpret_cast<const std::byte*>(text.data());
  return {data, data + text.size()};
}

// A file with this header and the bytes 0, 1, 2, … as data.
Bytes File(absl::string_view header, size_t data_bytes) {
  std::string text;
  for (int i = 0; i < 8; ++i) text.push_back(static_cast<char>(header.size() >> (8 * i)));
  text += std::string(header);
  for (size_t i = 0; i < data_bytes; ++i) text.push_back(static_cast<char>(i));
  return ToBytes(text);
}

// A file whose only tensor "w" has these fields.
Bytes FileOf(absl::string_view fields, size_t data_bytes = 8) {
  return File("{\"w\":{" + std::string(fields) + "}}", data_bytes);
}

Bytes WithLength(uint64_t length) {
  Bytes file = FileOf(R"("dtype":"F32","shape":[2],"data_offsets":[0,8])");
  for (int i = 0; i < 8; ++i) file[i] = static_cast<std::byte>(length >> (8 * i));
  return file;
}

TEST(SafetensorsTest, ReadsTensorsAndMetadata) {
  const Bytes file = File(R"({"__metadata__":{"kind":"test"},"b":{"dtype":"U8","shape":[3],"data_offsets":[0,3]},)"
                          R"("a":{"shape":[1,2],"dtype":"BF16","data_offsets":[3,7]}}  )",
                          7);
  const absl::StatusOr<TensorMap> map = ParseSafetensors(file);
  ASSERT_THAT(map, IsOk());
  ASSERT_THAT(map->tensors, SizeIs(2));
  EXPECT_THAT(map->metadata, ::testing::ElementsAre(::testing::Pair("kind", "test")));
  EXPECT_EQ(map->tensors[0].name, "a");
  EXPECT_EQ(map->tensors[0].dtype, DType::kBFloat16);
  EXPECT_EQ(map->tensors[0].shape, Shape({1, 2}));
  EXPECT_EQ(map->tensors[0].data.data(), file.data() + file.size() - 4);
  EXPECT_EQ(map->tensors[0].data.size(), 4u);
  EXPECT_EQ(map->Find("b"), &map->tensors[1]);
  EXPECT_EQ(map->Find("c"), nullptr);
}

TEST(SafetensorsTest, ReadsScalarsAndEmptyTensors) {
  const Bytes file = File(R"({"empty":{"dtype":"F32","shape":[0,5],"data_offsets":[8,8]},)"
                          R"("scalar":{"dtype":"F64","shape":[],"data_offsets":[0,8]}})",
                          8);
  const absl::StatusOr<TensorMap> map = ParseSafetensors(file);
  ASSERT_THAT(map, IsOk());
  EXPECT_EQ(map->Find("empty")->data.size(), 0u);
  EXPECT_EQ(map->Find("scalar")->data.size(), 8u);
}

TEST(SafetensorsTest, ReadsAFileWithoutTensors) { EXPECT_THAT(ParseSafetensors(File("{}", 0)), IsOk()); }

// A tensor that no layer can use, as `name` in a file that has a tensor "z" after it.
struct Foreign {
  std::string entry;
  std::string name;
  std::string message;
};

TEST(SafetensorsTest, ReadsTheOtherTensorsBesideOneThatNoLayerCanUse) {
  const std::string types = "expected one of F64, F32, F16, BF16, BOOL, U8, I8, I16, U16, I32, U32, I64, U64, got ";
  for (const Foreign& c : std::vector<Foreign>{
           {R"("w":{"dtype":"F8_E4M3","shape":[8],"data_offsets":[0,8]})", "w", "w: dtype: " + types + "\"F8_E4M3\""},
           {R"("w":{"dtype":"C64","shape":[1],"data_offsets":[0,8]})", "w", "w: dtype: " + types + "\"C64\""},
           {R"("w":{"shape":[16],"data_offsets":[0,8],"dtype":"F4"})", "w", "w: dtype: " + types + "\"F4\""},
           {R"("w":{"dtype":"F32","shape":[1,1,1,1,1,1,1,1,2],"data_offsets":[0,8]})", "w",
            "w: shape: expected at most 8 axes, got more"},
           {R"("a\u0000b":{"dtype":"F32","shape":[2],"data_offsets":[0,8]})", "a\\000b",
            "header: expected tensor names in UTF-8 without control characters, got \"a\\000b\""}}) {
    const Bytes file = File("{" + c.entry + R"(,"z":{"dtype":"U8","shape":[4],"data_offsets":[8,12]}})", 12);
    const absl::StatusOr<TensorMap> map = ParseSafetensors(file);
    ASSERT_THAT(map, IsOk()) << c.message;
    ASSERT_THAT(map->tensors, SizeIs(2));
    const NamedTensor* const foreign = map->Find(c.name);
    ASSERT_NE(foreign, nullptr) << c.name;
    EXPECT_THAT(foreign->usable, StatusIs(absl::StatusCode::kInvalidArgument, c.message));
    EXPECT_TRUE(foreign->data.empty());
    EXPECT_THAT(map->Find("z")->usable, IsOk());
    EXPECT_EQ(map->Find("z")->data.data(), file.data() + file.size() - 4);
  }
}

struct Fault {
  std::string name;
  Bytes file;
  std::string message;  // part of the expected error
};

void PrintTo(const Fault& fault, std::ostream* out) { *out << fault.name; }

class SafetensorsFaultsTest : public ::testing::TestWithParam<Fault> {};

TEST_P(SafetensorsFaultsTest, IsRefused) {
  // An exact copy, so that the address sanitizer detects any read past its end.
  const Bytes file(GetParam().file.begin(), GetParam().file.end());
  EXPECT_THAT(ParseSafetensors(file), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(GetParam().message)));
}

const Fault kLengthFaults[] = {
    {"EmptyFile", {}, "header length: expected 8 bytes, got 0"},
    {"SevenBytes", Bytes(7), "header length: expected 8 bytes, got 7"},
    {"LengthZero", WithLength(0), "header length: expected 2 to 62, got 0"},
    {"LengthPastFile", WithLength(63), "header length: expected 2 to 62, got 63"},
    {"LengthWraps", WithLength(~uint64_t{7}), "header length: expected 2 to 62, got 18446744073709551608"},
};

const Fault kJsonFaults[] = {
    {"BlankFirst", File(" {}", 0), "header: expected '{' as the first byte, got \" \""},
    {"List", File("[]", 0), "header: expected '{' as the first byte, got \"[\""},
    {"CutJson", File(R"({"w":)", 0), "header: not a JSON object"},
    {"TextAfterwards", File("{}x", 0), "header: not a JSON object"},
    {"ZeroAfterwards", File(absl::string_view("{}\0{", 4), 0),
     "header: expected a JSON object, got a zero byte at byte 2"},
    {"Comment", File("{/**/}", 0), "header: not a JSON object"},
    {"NotUtf8", File("{\"w\xFF\":{}}", 0), "header: not a JSON object in UTF-8"},
    {"DeepList", File("{\"w\":" + std::string(3000, '[') + std::string(3000, ']') + "}", 0),
     "w: expected an object, got a list"},
    {"DeepObject", FileOf(R"("dtype":{"a":{}})"), "w: dtype: expected a string, got an object"},
    {"TensorIsNumber", File(R"({"w":1})", 0), "w: expected an object, got 1"},
    {"TensorIsNull", File(R"({"w":null})", 0), "w: expected an object, got null"},
    {"MetadataNumber", File(R"({"__metadata__":{"a":1}})", 0), "__metadata__: a: expected a string, got 1"},
    {"MetadataList", File(R"({"__metadata__":{"a":[]}})", 0), "__metadata__: a: expected a string, got a list"},
};

const Fault kDuplicates[] = {
    {"DuplicateTensor",
     File(
         R"({"w":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"w":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})",
         2),
     "w: duplicate tensor name"},
    {"DuplicateTensorEscaped",
     File(
         R"({"w":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"\u0077":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})",
         1),
     "w: duplicate tensor name"},
    {"DuplicateField", FileOf(R"("dtype":"F32","dtype":"F32","shape":[2],"data_offsets":[0,8])"),
     "w: duplicate key dtype"},
    {"DuplicateMetadata", File(R"({"__metadata__":{},"__metadata__":{}})", 0), "header: duplicate key __metadata__"},
    {"DuplicateMetadataKey", File(R"({"__metadata__":{"a":"1","\u0061":"2"}})", 0), "__metadata__: duplicate key a"},
};

const Fault kFieldFaults[] = {
    {"UnknownField", FileOf(R"("dtype":"F32","shape":[2],"data_offsets":[0,8],"strides":[1])"),
     "w: expected the keys dtype, shape and data_offsets, got strides"},
    {"NoDType", FileOf(R"("shape":[2],"data_offsets":[0,8])"), "w: dtype is missing"},
    {"NoShape", FileOf(R"("dtype":"F32","data_offsets":[0,8])"), "w: shape is missing"},
    {"NoOffsets", FileOf(R"("dtype":"F32","shape":[2])"), "w: data_offsets is missing"},
    {"ShapeText", FileOf(R"("dtype":"F32","shape":"2","data_offsets":[0,8])"), "w: shape: expected a list, got \"2\""},
    {"ShapeFraction", FileOf(R"("dtype":"F32","shape":[2.0],"data_offsets":[0,8])"),
     "w: shape: expected integers of at least 0, got 2.0"},
    {"ShapeNegative", FileOf(R"("dtype":"F32","shape":[-1,-2],"data_offsets":[0,8])"),
     "w: shape: expected integers of at least 0, got -1"},
    {"ShapePastInt64", FileOf(R"("dtype":"F32","shape":[9223372036854775808],"data_offsets":[0,8])"),
     "w: shape: expected sizes below 2^63, got 9223372036854775808"},
    {"ShapeNested", FileOf(R"("dtype":"F32","shape":[[2]],"data_offsets":[0,8])"),
     "w: shape: expected integers of at least 0, got a list"},
    {"OneOffset", FileOf(R"("dtype":"F32","shape":[2],"data_offsets":[0])"),
     "w: data_offsets: expected 2 numbers, got 1"},
    {"ThreeOffsets", FileOf(R"("dtype":"F32","shape":[2],"data_offsets":[0,8,8])"),
     "w: data_offsets: expected 2 numbers, got more"},
    {"OffsetPastUint64", FileOf(R"("dtype":"F32","shape":[2],"data_offsets":[0,18446744073709551616])"),
     "w: data_offsets: expected integers of at least 0, got 18446744073709551616"},
};

const Fault kDataFaults[] = {
    {"OffsetsInverted", FileOf(R"("dtype":"F32","shape":[2],"data_offsets":[8,0])"),
     "w: data_offsets: expected a begin that is not after the end, got [8, 0]"},
    {"OffsetsPastEnd", FileOf(R"("dtype":"F32","shape":[2],"data_offsets":[0,8])", 7),
     "w: data_offsets: expected offsets within the 7 bytes of data, got [0, 8]"},
    {"ShapeTooLarge", FileOf(R"("dtype":"F32","shape":[1000,1000],"data_offsets":[0,8])"),
     "w: data_offsets: expected 4000000 bytes for float32 [1000, 1000], got 8"},
    {"ShapeOverflows", FileOf(R"("dtype":"F32","shape":[4611686018427387904,4,2],"data_offsets":[0,8])"),
     "w: data_offsets: expected 2^63 or more bytes for float32 [4611686018427387904, 4, 2], got 8"},
    {"WiderDType", FileOf(R"("dtype":"F64","shape":[2],"data_offsets":[0,8])"),
     "w: data_offsets: expected 16 bytes for float64 [2], got 8"},
    {"TrailingByte", FileOf(R"("dtype":"F32","shape":[2],"data_offsets":[0,8])", 9),
     "data: expected 8 bytes as in data_offsets, got 9"},
    {"HoleFirst", FileOf(R"("dtype":"F32","shape":[1],"data_offsets":[4,8])"),
     "w: data_offsets: expected begin 0, the end of the tensor before it, got 4"},
    {"Hole",
     File(
         R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"b":{"dtype":"U8","shape":[1],"data_offsets":[2,3]}})",
         3),
     "b: data_offsets: expected begin 1, the end of the tensor before it, got 2"},
    {"Overlap",
     File(
         R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"b":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}})",
         3),
     "b: data_offsets: expected begin 2, the end of the tensor before it, got 1"},
};

std::string FaultName(const ::testing::TestParamInfo<Fault>& info) { return info.param.name; }

INSTANTIATE_TEST_SUITE_P(Length, SafetensorsFaultsTest, ::testing::ValuesIn(kLengthFaults), FaultName);
INSTANTIATE_TEST_SUITE_P(Json, SafetensorsFaultsTest, ::testing::ValuesIn(kJsonFaults), FaultName);
INSTANTIATE_TEST_SUITE_P(Duplicate, SafetensorsFaultsTest, ::testing::ValuesIn(kDuplicates), FaultName);
INSTANTIATE_TEST_SUITE_P(Field, SafetensorsFaultsTest, ::testing::ValuesIn(kFieldFaults), FaultName);
INSTANTIATE_TEST_SUITE_P(Data, SafetensorsFaultsTest, ::testing::ValuesIn(kDataFaults), FaultName);

TEST(SafetensorsTest, RefusesAHeaderAbove100MB) {
  Bytes file(8 + 100'000'001);
  for (int i = 0; i < 8; ++i) file[i] = static_cast<std::byte>((file.size() - 8) >> (8 * i));
  EXPECT_THAT(ParseSafetensors(file),
              StatusIs(absl::StatusCode::kInvalidArgument, "header length: expected 2 to 100000000, got 100000001"));
}

TEST(SafetensorsTest, RefusesTruncatedFiles) {
  const Bytes whole = FileOf(R"("dtype":"F32","shape":[2],"data_offsets":[0,8])");
  ASSERT_THAT(ParseSafetensors(whole), IsOk());
  for (size_t size = 0; size < whole.size(); ++size) {
    const Bytes cut(whole.begin(), whole.begin() + size);
    EXPECT_EQ(ParseSafetensors(cut).status().code(), absl::StatusCode::kInvalidArgument) << size;
  }
}

TEST(SafetensorsTest, SurvivesEveryChangedByte) {
  const Bytes whole = FileOf(R"("dtype":"F32","shape":[2],"data_offsets":[0,8])");
  for (size_t i = 0; i < whole.size(); ++i) {
    for (int value = 0; value < 256; ++value) {
      Bytes changed = whole;
      changed[i] = static_cast<std::byte>(value);
      const absl::StatusOr<TensorMap> map = ParseSafetensors(changed);
      if (!map.ok()) continue;
      ASSERT_THAT(map->tensors, SizeIs(1)) << i << " " << value;
      if (!map->tensors[0].usable.ok()) continue;
      ASSERT_EQ(map->tensors[0].data.data(), changed.data() + changed.size() - 8) << i << " " << value;
    }
  }
}

TEST(SafetensorsTest, EscapesAndCutsLongNamesInErrors) {
  const Bytes file = File("{\"\\\"" + std::string(1'000'000, 'a') + "\":1}", 0);
  const absl::Status status = ParseSafetensors(file).status();
  EXPECT_EQ(status.message(), "\\\"" + std::string(95, 'a') + "...: expected an object, got 1");
}

NamedTensor Tensor(const std::string& name, DType dtype, const Shape& shape, absl::Span<const std::byte> data) {
  return {name, dtype, shape, data};
}

TEST(SafetensorsTest, WritesWhatItReads) {
  const Bytes data = ToBytes("abcdefgh");
  const absl::Span<const std::byte> all(data);
  const NamedTensor tensors[] = {Tensor("odd \"name\" é", DType::kUInt8, {3}, all.first(3)),
                                 Tensor("z", DType::kFloat32, {2, 1}, all),
                                 Tensor("empty", DType::kFloat32, {0}, all.first(0))};
  const absl::StatusOr<Bytes> file = SerializeSafetensors(tensors, {{"kind", "a \"quoted\" text"}});
  ASSERT_THAT(file, IsOk());
  const absl::StatusOr<TensorMap> map = ParseSafetensors(*file);
  ASSERT_THAT(map, IsOk());
  ASSERT_THAT(map->tensors, SizeIs(3));
  EXPECT_EQ(map->metadata.at("kind"), "a \"quoted\" text");
  for (const NamedTensor& tensor : tensors) {
    const NamedTensor* const read = map->Find(tensor.name);
    ASSERT_NE(read, nullptr) << tensor.name;
    EXPECT_EQ(read->dtype, tensor.dtype);
    EXPECT_EQ(read->shape, tensor.shape);
    EXPECT_TRUE(std::equal(read->data.begin(), read->data.end(), tensor.data.begin(), tensor.data.end()));
  }
}

TEST(SafetensorsTest, WritesTheSameBytesForAnyOrder) {
  const Bytes data = ToBytes("abcd");
  const NamedTensor a = Tensor("a", DType::kUInt8, {4}, data), b = Tensor("b", DType::kFloat32, {1}, data);
  const absl::StatusOr<Bytes> file = SerializeSafetensors({a, b});
  ASSERT_THAT(file, IsOk());
  EXPECT_EQ(*file, SerializeSafetensors({b, a}).value());
  const std::string header = R"({"b":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)"
                             R"("a":{"dtype":"U8","shape":[4],"data_offsets":[4,8]}})";
  const std::string padded = header + std::string((8 - header.size() % 8) % 8, ' ');
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(file->data()) + 8, file->size() - 8), padded + "abcdabcd");
}

TEST(SafetensorsTest, RefusesToWriteWhatItCannotRead) {
  const Bytes data = ToBytes("abcd");
  const auto refusal = [](absl::Span<const NamedTensor> tensors) { return SerializeSafetensors(tensors).status(); };
  const auto is_invalid = [](const char* text) {
    return StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(text));
  };
  EXPECT_THAT(refusal({Tensor("w", DType::kUInt8, {4}, data), Tensor("w", DType::kUInt8, {4}, data)}),
              is_invalid("w: duplicate tensor name"));
  EXPECT_THAT(refusal({Tensor("w", DType::kUInt8, {5}, data)}),
              is_invalid("w: data_offsets: expected 5 bytes for uint8 [5], got 4"));
  EXPECT_THAT(refusal({Tensor("\xFF", DType::kUInt8, {4}, data)}),
              is_invalid("header: expected text in UTF-8, got \"\\377\""));
  EXPECT_THAT(refusal({Tensor("a\nb", DType::kUInt8, {4}, data)}),
              is_invalid("header: expected tensor names in UTF-8 without control characters, got \"a\\nb\""));
  EXPECT_THAT(SerializeSafetensors({}, {{"a", "\xFF"}}), is_invalid("header: expected text in UTF-8, got \"\\377\""));
}

}  // namespace
}  // namespace attention::server
