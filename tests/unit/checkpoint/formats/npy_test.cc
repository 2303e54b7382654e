#include "server/checkpoint/formats/npy.h"

#include <gmock/gmock.h>

#include <string>
#include <utility>

#include "tests/testing/files/npz.h"
#include "tests/testing/matchers.h"

namespace attention::server {
namespace {

using ::attention::test::IsOk;
using ::attention::test::StatusIs;
using ::testing::HasSubstr;

using Bytes = std::vector<std::byte>;

Bytes ToBytes(absl::string_view text) {
  const auto* const data = reinterpret_cast<const std::byte*>(text.data());
  return {data, data + text.size()};
}

Bytes File(const std::string& header, size_t data_bytes, int version = 1) {
  return ToBytes(test::MakeNpy(header, std::string(data_bytes, 'x'), version));
}

TEST(NpyTest, ReadsEveryVersion) {
  for (const int version : {1, 2, 3}) {
    const Bytes file = File("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }   \n", 24, version);
    const absl::StatusOr<TensorMap> map = ParseNpy(file);
    ASSERT_THAT(map, IsOk()) << version;
    ASSERT_EQ(map->tensors.size(), 1u);
    const NamedTensor& tensor = map->tensors[0];
    EXPECT_EQ(tensor.name, "");
    EXPECT_EQ(tensor.dtype, DType::kFloat32);
    EXPECT_EQ(tensor.shape, Shape({2, 3}));
    EXPECT_EQ(tensor.data.data(), file.data() + file.size() - 24);
    EXPECT_EQ(tensor.data.size(), 24u);
  }
}

struct Good {
  std::string header;
  DType dtype;
  Shape shape;
};

TEST(NpyTest, ReadsEveryTypeAndShape) {
  const Good cases[] = {
      {"{'descr': '<f8', 'fortran_order': False, 'shape': (), }", DType::kFloat64, {}},
      {"{'descr': '<f2', 'fortran_order': False, 'shape': (5,), }", DType::kFloat16, {5}},
      {"{'descr': '|b1', 'fortran_order': False, 'shape': (1, 0, 2)}", DType::kBool, {1, 0, 2}},
      {"{'descr': '|i1', 'fortran_order': False, 'shape': (1, 2,)}", DType::kInt8, {1, 2}},
      {"{'descr': '|u1', 'fortran_order': False, 'shape': (3,)}", DType::kUInt8, {3}},
      {"{'descr': '<i2', 'fortran_order': False, 'shape': (3,)}", DType::kInt16, {3}},
      {"{'descr': '<u2', 'fortran_order': False, 'shape': (3,)}", DType::kUInt16, {3}},
      {"{'descr': '<i4', 'fortran_order': False, 'shape': (3,)}", DType::kInt32, {3}},
      {"{'descr': '<u4', 'fortran_order': False, 'shape': (3,)}", DType::kUInt32, {3}},
      {"{'shape':(3,),\"descr\":\"<i8\",'fortran_order':False}", DType::kInt64, {3}},
      {"{'descr': '<u8', 'fortran_order': False, 'shape': (3,)}", DType::kUInt64, {3}},
  };
  for (const Good& c : cases) {
    const Bytes file = File(c.header, *ByteCount(c.shape, c.dtype));
    const absl::StatusOr<TensorMap> map = ParseNpy(file);
    ASSERT_THAT(map, IsOk()) << c.header;
    EXPECT_EQ(map->tensors[0].dtype, c.dtype) << c.header;
    EXPECT_EQ(map->tensors[0].shape, c.shape) << c.header;
  }
}

struct ColumnMajor {
  std::string descr_and_shape;
  std::string data;
  std::string row_major;
};

TEST(NpyTest, TransposesColumnMajorArrays) {
  const ColumnMajor cases[] = {
      {"'descr': '|u1', 'shape': (2, 3)", "adbecf", "abcdef"},
      {"'descr': '|u1', 'shape': (3, 2)", "acebdf", "abcdef"},
      {"'descr': '|u1', 'shape': (2, 3, 2)", "agciekbhdjfl", "abcdefghijkl"},
      {"'descr': '<f2', 'shape': (2, 2)", "AaCcBbDd", "AaBbCcDd"},
      {"'descr': '<f4', 'shape': (2, 2)", "aaaaccccbbbbdddd", "aaaabbbbccccdddd"},
      {"'descr': '<f8', 'shape': (1, 2, 1)", "aaaaaaaabbbbbbbb", "aaaaaaaabbbbbbbb"},
      {"'descr': '<f4', 'shape': (0, 4611686018427387904, 8)", "", ""},
      {"'descr': '<f4', 'shape': ()", "aaaa", "aaaa"},
  };
  for (const ColumnMajor& c : cases) {
    const Bytes file = ToBytes(test::MakeNpy("{" + c.descr_and_shape + ", 'fortran_order': True}", c.data));
    absl::StatusOr<TensorMap> map = ParseNpy(file);
    ASSERT_THAT(map, IsOk()) << c.descr_and_shape;
    const TensorMap moved = *std::move(map);
    const absl::Span<const std::byte> data = moved.tensors[0].data;
    EXPECT_EQ(Bytes(data.begin(), data.end()), ToBytes(c.row_major)) << c.descr_and_shape;
  }
}

TEST(NpyTest, ReadsAColumnMajorVector) {
  const Bytes file = ToBytes(test::MakeNpy("{'descr': '|u1', 'shape': (3,), 'fortran_order': True}", "abc"));
  const auto parsed = ParseNpy(file);
  ASSERT_TRUE(parsed.ok());
  EXPECT_THAT(parsed->tensors[0].data, ::testing::ElementsAre(std::byte{'a'}, std::byte{'b'}, std::byte{'c'}));
}

struct Fault {
  std::string name;
  Bytes file;
  std::string message;
};

void PrintTo(const Fault& fault, std::ostream* out) { *out << fault.name; }

class NpyFaultsTest : public ::testing::TestWithParam<Fault> {};

TEST_P(NpyFaultsTest, IsRefused) {
  EXPECT_THAT(ParseNpy(GetParam().file), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(GetParam().message)));
}

const Fault kFaults[] = {
    {"Empty", {}, "npy: expected \\x93NUMPY and a version as the first bytes, got \"\""},
    {"OtherMagic", ToBytes("PK\x03\x04 a zip file"), "as the first bytes, got \"PK\\003\\004 a z\""},
    {"Version4", File("{}", 0, 4), "npy: version: expected 1, 2 or 3, got 4"},
    {"CutLength", ToBytes(absl::string_view("\x93NUMPY\x01\x00\x05", 9)),
     "npy: the file ends within the header length"},
    {"CutHeader", ToBytes(absl::string_view("\x93NUMPY\x02\x00\xFF\xFF\xFF\xFF{", 13)),
     "npy: header length: expected at most 1, got 4294967295"},
    {"OtherOrder", File("{'descr': '<f4', 'fortran_order': Maybe, 'shape': (2,)}", 8),
     "npy: header: expected True or False, got \"Maybe, \\'shape\\': (2,)\""},
    {"BigEndian", File("{'descr': '>f4', 'fortran_order': False, 'shape': (2,)}", 8),
     "npy: descr: '>f4' is big-endian; save"},
    {"Pickle", File("{'descr': '|O', 'fortran_order': False, 'shape': (2,)}", 8),
     "npy: descr: '|O' is an object array (pickle)"},
    {"BFloat16", File("{'descr': '|V2', 'fortran_order': False, 'shape': (2,)}", 4),
     "use a safetensors file for bfloat16"},
    {"Complex", File("{'descr': '<c8', 'fortran_order': False, 'shape': (1,)}", 8),
     "npy: descr: expected bool, float16, float32, float64 or an integer type, little-endian, got '<c8'"},
    {"Structured", File("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,)}", 4),
     "structured arrays are not supported"},
    {"NoDict", File("[]", 0), "npy: header: expected '{', got \"[]\""},
    {"NoShape", File("{'descr': '<f4', 'fortran_order': False}", 0),
     "expected the keys descr, fortran_order and shape, got \"}\""},
    {"OtherKey", File("{'descr': '<f4', 'strides': (1,)}", 0), "expected descr, fortran_order and shape, each once"},
    {"DuplicateKey", File("{'descr': '<f4', 'descr': '<f4'}", 0), "expected descr, fortran_order and shape, each once"},
    {"Unclosed", File("{'descr': '<f4", 0), "expected a string in quotes, got \"<f4\""},
    {"TextAfterwards", File("{'descr': '<f4', 'fortran_order': False, 'shape': (2,)} + 1", 8),
     "expected nothing after '}', got \" + 1\""},
    {"NegativeSize", File("{'descr': '<f4', 'fortran_order': False, 'shape': (-2,)}", 8),
     "expected a size from 0 to 2^63 - 1, got \"-2,)}\""},
    {"HugeSize", File("{'descr': '<f4', 'fortran_order': False, 'shape': (9223372036854775808,)}", 8),
     "expected a size from 0 to 2^63 - 1, got \"9223372036854775808,\""},
    {"NoTuple", File("{'descr': '<f4', 'fortran_order': False, 'shape': (2)}", 8), "expected ',', got \")}\""},
    {"NineAxes", File("{'descr': '<f4', 'fortran_order': False, 'shape': (1, 1, 1, 1, 1, 1, 1, 1, 1)}", 4),
     "npy: shape: expected at most 8 axes, got more"},
    {"Overflow", File("{'descr': '<f4', 'fortran_order': False, 'shape': (4611686018427387904, 4)}", 0),
     "npy: data: expected 2^63 or more bytes for float32"},
    {"OneByteShort", File("{'descr': '<f4', 'fortran_order': False, 'shape': (2,)}", 7),
     "npy: data: expected 8 bytes for float32 [2], got 7"},
    {"OneByteMore", File("{'descr': '<f4', 'fortran_order': False, 'shape': (2,)}", 9),
     "npy: data: expected 8 bytes for float32 [2], got 9"},
};

INSTANTIATE_TEST_SUITE_P(Faults, NpyFaultsTest, ::testing::ValuesIn(kFaults),
                         [](const auto& info) { return info.param.name; });

TEST(NpyTest, WritesVersion1WithDataAt64Bytes) {
  const Bytes data(12);
  const absl::StatusOr<Bytes> file = SerializeNpy({"", DType::kFloat32, {3}, data});
  ASSERT_THAT(file, IsOk());
  std::string expected("\x93NUMPY\x01\x00\x76\x00{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }", 67);
  expected += std::string(127 - expected.size(), ' ') + '\n' + std::string(12, '\0');
  EXPECT_EQ(*file, ToBytes(expected));
}

TEST(NpyTest, ReadsWhatItWrites) {
  for (const Shape& shape : {Shape{}, Shape{4}, Shape{2, 0}, Shape{2, 1, 3}}) {
    const Bytes data(*ByteCount(shape, DType::kInt64), std::byte{7});
    const absl::StatusOr<Bytes> file = SerializeNpy({"", DType::kInt64, shape, data});
    ASSERT_THAT(file, IsOk());
    EXPECT_EQ((file->size() - data.size()) % 64, 0u);
    const absl::StatusOr<TensorMap> map = ParseNpy(*file);
    ASSERT_THAT(map, IsOk());
    EXPECT_EQ(map->tensors[0].dtype, DType::kInt64);
    EXPECT_EQ(map->tensors[0].shape, shape);
    EXPECT_EQ(Bytes(map->tensors[0].data.begin(), map->tensors[0].data.end()), data);
  }
}

TEST(NpyTest, RefusesToWriteBFloat16) {
  const Bytes data(4);
  EXPECT_THAT(
      SerializeNpy({"", DType::kBFloat16, {2}, data}),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("npy: dtype: the format does not support bfloat16")));
}

TEST(NpyTest, RefusesToWriteDataThatDoNotMatchTheShape) {
  const Bytes data(4);
  EXPECT_THAT(SerializeNpy({"", DType::kFloat32, {2}, data}),
              StatusIs(absl::StatusCode::kInvalidArgument, "npy: data: expected 8 bytes for float32 [2], got 4"));
}

}  // namespace
}  // namespace attention::server
