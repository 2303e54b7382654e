#include "server/checkpoint/formats/npz.h"

#include <gmock/gmock.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/testing/files/npz.h"
#include "tests/testing/files/tensors.h"
#include "tests/testing/matchers.h"

namespace attention::server {
namespace {

using ::attention::test::IsOk;
using ::attention::test::MakeNpy;
using ::attention::test::MakeZip;
using ::attention::test::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

constexpr char kBytes4[] = "{'descr': '|u1', 'fortran_order': False, 'shape': (4,), }";

// With the data of all arrays.
absl::StatusOr<TensorMap> Parse(const std::string& file) {
  const MemorySource source(test::BytesOf(file));
  absl::StatusOr<TensorMap> map = DescribeNpz(source);
  if (!map.ok()) return map;
  if (absl::Status status = test::ReadAllTensors(*map); !status.ok()) return status;
  return map;
}

std::string Data(const NamedTensor& tensor) {
  return {reinterpret_cast<const char*>(tensor.data.data()), tensor.data.size()};
}

std::string Number(const char* descr, const std::string& data) {
  return MakeNpy("{'descr': '" + std::string(descr) + "', 'fortran_order': False, 'shape': (), }", data);
}

// One array "a/b" with the bytes 1234.
std::string SmallFile(bool deflate = false) { return MakeZip({{"a/b.npy", MakeNpy(kBytes4, "1234")}}, deflate); }

TEST(NpzTest, ReadsStoredAndDeflatedArrays) {
  const std::string ones(10'000, '\1');
  const std::string npy = MakeNpy("{'descr': '<f4', 'fortran_order': False, 'shape': (50, 50), }", ones);
  for (const bool deflate : {false, true}) {
    const std::string file = MakeZip({{"z.npy", npy}, {"layer0/query/kernel.npy", MakeNpy(kBytes4, "1234")}}, deflate);
    EXPECT_EQ(file.size() < ones.size(), deflate);
    const absl::StatusOr<TensorMap> map = Parse(file);
    ASSERT_THAT(map, IsOk());
    ASSERT_EQ(map->tensors.size(), 2u);
    EXPECT_EQ(map->tensors[0].name, "layer0/query/kernel");
    EXPECT_EQ(Data(map->tensors[0]), "1234");
    EXPECT_EQ(map->tensors[1].name, "z");
    EXPECT_EQ(map->tensors[1].dtype, DType::kFloat32);
    EXPECT_EQ(map->tensors[1].shape, Shape({50, 50}));
    EXPECT_EQ(Data(map->tensors[1]), ones);
  }
}

TEST(NpzTest, KeepsItsTensorsWhenMoved) {
  absl::StatusOr<TensorMap> map = Parse(SmallFile(true));
  ASSERT_THAT(map, IsOk());
  TensorMap moved = *std::move(map);
  const TensorMap again = std::move(moved);
  EXPECT_EQ(Data(*again.Find("a/b")), "1234");
}

TEST(NpzTest, TransposesColumnMajorArrays) {
  const std::string npy = MakeNpy("{'descr': '|u1', 'fortran_order': True, 'shape': (2, 3), }", "142536");
  const absl::StatusOr<TensorMap> map = Parse(MakeZip({{"a.npy", npy}}));
  ASSERT_THAT(map, IsOk());
  EXPECT_EQ(map->tensors[0].shape, Shape({2, 3}));
  EXPECT_EQ(Data(map->tensors[0]), "123456");
}

TEST(NpzTest, ReadsNumbersAsMetadata) {
  const std::string file = MakeZip({{"num_heads.npy", Number("<i8", std::string("\x0C\0\0\0\0\0\0\0", 8))},
                                    {"layer0/num_heads.npy", Number("|i1", "\xFF")},
                                    {"scale.npy", Number("<f4", "\xCD\xCC\xCC\x3D")},
                                    {"causal.npy", Number("|b1", "\1")}});
  const absl::StatusOr<TensorMap> map = Parse(file);
  ASSERT_THAT(map, IsOk());
  EXPECT_TRUE(map->tensors.empty());
  EXPECT_THAT(map->metadata, ElementsAre(Pair("causal", "true"), Pair("layer0/num_heads", "-1"),
                                         Pair("num_heads", "12"), Pair("scale", "0.1")));
}

TEST(NpzTest, ReadsAFileWithoutArrays) {
  const std::string end("PK\5\6" + std::string(18, '\0'));
  ASSERT_THAT(Parse(end), IsOk());
  EXPECT_TRUE(Parse(end)->tensors.empty());
}

TEST(NpzTest, IgnoresFolders) {
  const absl::StatusOr<TensorMap> map = Parse(MakeZip({{"a/", ""}, {"a/b.npy", MakeNpy(kBytes4, "1234")}}));
  ASSERT_THAT(map, IsOk());
  EXPECT_EQ(map->tensors.size(), 1u);
}

TEST(NpzTest, ReadsLongHeaders) {
  const auto with_header = [](size_t bytes) {
    return MakeZip({{"a.npy", MakeNpy(kBytes4 + std::string(bytes - 12 - (sizeof(kBytes4) - 1), ' '), "1234", 2)}});
  };
  for (const size_t bytes : {4095, 4096, 4097, 65536}) {
    const absl::StatusOr<TensorMap> map = Parse(with_header(bytes));
    ASSERT_THAT(map, IsOk()) << bytes;
    EXPECT_EQ(Data(map->tensors[0]), "1234");
  }
  EXPECT_THAT(Parse(with_header(65537)),
              StatusIs(absl::StatusCode::kInvalidArgument, "a: npy: header: expected at most 65536 bytes, got 65537"));
}

TEST(NpzTest, RefusesAPickleOfPyTorchAtAnyPosition) {
  const test::ZipEntry pickle{"model/data.pkl", "\x80\x02}q."}, other{"model/byteorder", "little"};
  for (const std::string& file : {MakeZip({pickle, other}), MakeZip({other, pickle})}) {
    EXPECT_THAT(Parse(file), StatusIs(absl::StatusCode::kUnimplemented, HasSubstr("safetensors.torch.save_file")));
  }
}

TEST(NpzTest, ReadsTheOtherArraysBesideOneThatNoLayerCanUse) {
  const auto typed = [](const std::string& descr, const std::string& shape = "(1,)") {
    return MakeNpy("{'descr': " + descr + ", 'fortran_order': False, 'shape': " + shape + ", }", "12345678");
  };
  struct Foreign {
    std::string entry, npy;
    std::string name, message;
  };
  const std::string numbers = "expected bool, float16, float32, float64 or an integer type, little-endian, got ";
  for (const Foreign& c : std::vector<Foreign>{
           {"w.npy", typed("'<U2'"), "w", "w: npy: descr: " + numbers + "'<U2'"},
           {"w.npy", typed("'<U2'", "()"), "w", "w: npy: descr: " + numbers + "'<U2'"},
           {"w.npy", typed("'<c8'"), "w", "w: npy: descr: " + numbers + "'<c8'"},
           {"w.npy", typed("'<M8[D]'"), "w", "w: npy: descr: " + numbers + "'<M8[D]'"},
           {"w.npy", typed("'|O'"), "w", "w: npy: descr: '|O' is an object array (pickle); save an array of numbers"},
           {"w.npy", typed("[('a', '<f4'), ('b]', [('c', '<i4')])]"), "w",
            "w: npy: descr: structured arrays are not supported; save one field"},
           {"w.npy", typed("'<f8'", "(1, 1, 1, 1, 1, 1, 1, 1, 1)"), "w",
            "w: npy: shape: expected at most 8 axes, got more"},
           {"a.txt", "text", "a.txt", "npz: entry: expected a name that ends in .npy, got \"a.txt\""},
           {".npy", "text", ".npy", "npz: entry: expected a name that ends in .npy, got \".npy\""},
           {"a\nb.npy", "text", "a\\nb.npy",
            "npz: entry: expected tensor names in UTF-8 without control characters, got \"a\\nb\""}}) {
    const absl::StatusOr<TensorMap> map = Parse(MakeZip({{c.entry, c.npy}, {"z.npy", MakeNpy(kBytes4, "1234")}}));
    ASSERT_THAT(map, IsOk()) << c.message;
    ASSERT_EQ(map->tensors.size(), 2u);
    const NamedTensor* const foreign = map->Find(c.name);
    ASSERT_NE(foreign, nullptr) << c.name;
    EXPECT_THAT(foreign->usable, StatusIs(absl::StatusCode::kInvalidArgument, c.message));
    EXPECT_TRUE(foreign->data.empty());
    EXPECT_EQ(Data(*map->Find("z")), "1234");
  }
}

// Overwrites the bytes at `offset` in the first header that starts with `magic`.
std::string Patched(std::string file, const std::string& magic, size_t offset, const std::string& bytes) {
  file.replace(file.find(magic) + offset, bytes.size(), bytes);
  return file;
}

// Patches the local and the central header of the only entry; the offsets in them differ by two.
std::string PatchedTwice(const std::string& file, size_t local_offset, const std::string& bytes) {
  return Patched(Patched(file, "PK\3\4", local_offset, bytes), "PK\1\2", local_offset + 2, bytes);
}

std::string Replaced(std::string file, const std::string& from, const std::string& to) {
  for (size_t at = file.find(from); at != std::string::npos; at = file.find(from, at))
    file.replace(at, from.size(), to);
  return file;
}

struct Fault {
  std::string name;
  std::string file;
  std::string message;  // part of the expected error
};

void PrintTo(const Fault& fault, std::ostream* out) { *out << fault.name; }

class NpzFaultsTest : public ::testing::TestWithParam<Fault> {};

TEST_P(NpzFaultsTest, IsRefused) {
  EXPECT_THAT(Parse(GetParam().file), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(GetParam().message)));
}

std::vector<Fault> Faults() {
  const std::string npy = MakeNpy(kBytes4, "1234"), stored = SmallFile(), deflated = SmallFile(true);
  return {
      {"Empty", "", "npz: the file is empty"},
      {"NoZip", "\x93NUMPY", "npz: expected a zip archive, got"},
      {"TextBefore", "text" + stored, "npz: "},
      {"TextAfter", stored + "text", "npz: "},
      {"OtherData", Replaced(stored, "1234", "1235"), "a/b: expected data with the stated CRC-32, got another"},
      {"OtherChecksum", PatchedTwice(deflated, 14, "\1\2\3\4"),
       "a/b: expected data with the stated CRC-32, got another"},
      {"HeadersDiffer", Patched(stored, "PK\1\2", 16, "\1\2\3\4"), "npz: expected headers that agree"},
      {"SizesDiffer", Patched(stored, "PK\1\2", 24, "\x10"), "a/b: expected 16 stored bytes, got 71"},
      {"ClaimsMore", PatchedTwice(deflated, 22, "\xFF"), "a/b: "},
      {"ClaimsLess", PatchedTwice(deflated, 22, "\x10"), "a/b: "},
      {"ClaimsTheImpossible", PatchedTwice(deflated, 22, "\xFF\xFF\xFF\x7F"), " deflated ones, got 2147483647"},
      {"StoredSizesDiffer", PatchedTwice(stored, 22, "\x10"), "a/b: expected 16 stored bytes, got 71"},
      {"Encrypted", PatchedTwice(stored, 6, "\1"), "a/b: encrypted"},
      {"Bzip2", PatchedTwice(stored, 8, "\x0C"), "a/b: compression method: expected 0 (none) or 8 (deflate), got 12"},
      {"DuplicateName", Replaced(MakeZip({{"aa.npy", npy}, {"bb.npy", npy}}), "bb.npy", "aa.npy"),
       ": duplicate array name"},
      {"NoArray", MakeZip({{"a.npy", "text"}}), "a: npy: expected \\x93NUMPY"},
      {"ShortArray", MakeZip({{"a.npy", MakeNpy(kBytes4, "123")}}),
       "a: npy: data: expected 4 bytes for uint8 [4], got 3"},
  };
}

INSTANTIATE_TEST_SUITE_P(Faults, NpzFaultsTest, ::testing::ValuesIn(Faults()),
                         [](const auto& info) { return info.param.name; });

std::string LittleEndian(uint64_t number, int bytes) {
  std::string text;
  for (; bytes > 0; --bytes, number >>= 8) text += static_cast<char>(number & 0xFF);
  return text;
}

// The fields from the flags to the length of the name, which both kinds of header share; the checksum is 0.
std::string HeaderFields(uint32_t size, const std::string& name) {
  return LittleEndian(0, 4) + LittleEndian(0, 4) + LittleEndian(0, 4) + LittleEndian(size, 4) + LittleEndian(size, 4) +
         LittleEndian(name.size(), 2);
}

// Each entry contains all later entries: many small entries that would be read as one large file.
TEST(NpzTest, RefusesEntriesThatOverlap) {
  std::string data = "the innermost data", central;
  constexpr int kEntries = 20;
  const size_t header_bytes = 30 + 6;
  for (int i = kEntries; i-- > 0;) {
    const std::string name = std::string(1, static_cast<char>('a' + i)) + "b.npy", version = LittleEndian(20, 2);
    const std::string fields = HeaderFields(data.size(), name);
    data = absl::StrCat("PK\3\4", version, fields, LittleEndian(0, 2), name, data);
    absl::StrAppend(&central, "PK\1\2", version, version, fields, LittleEndian(0, 12),
                    LittleEndian(i * header_bytes, 4), name);
  }
  const std::string end = "PK\5\6" + LittleEndian(0, 4) + LittleEndian(kEntries, 2) + LittleEndian(kEntries, 2) +
                          LittleEndian(central.size(), 4) + LittleEndian(data.size(), 4) + LittleEndian(0, 2);
  EXPECT_THAT(Parse(data + central + end),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(": overlaps with other entries: its ")));
}

TEST(NpzTest, RefusesTruncatedFiles) {
  for (const bool deflate : {false, true}) {
    const std::string whole = SmallFile(deflate);
    ASSERT_THAT(Parse(whole), IsOk());
    for (size_t size = 0; size < whole.size(); ++size) {
      EXPECT_THAT(Parse(whole.substr(0, size)), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(""))) << size;
    }
  }
}

TEST(NpzTest, SurvivesEveryChangedByte) {
  for (const bool deflate : {false, true}) {
    const std::string whole = SmallFile(deflate);
    for (size_t i = 0; i < whole.size(); ++i) {
      for (int value = 0; value < 256; ++value) {
        std::string changed = whole;
        changed[i] = static_cast<char>(value);
        const absl::StatusOr<TensorMap> map = Parse(changed);
        if (!map.ok() || map->tensors.empty() || !map->tensors[0].usable.ok()) continue;
        ASSERT_EQ(Data(map->tensors[0]), "1234") << i << " " << value;
      }
    }
  }
}

}  // namespace
}  // namespace attention::server
