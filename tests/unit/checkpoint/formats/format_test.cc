#include "server/checkpoint/formats/format.h"

#include <gmock/gmock.h>

#include <string>
#include <utility>
#include <vector>

#include "tests/testing/files/msgpack.h"
#include "tests/testing/files/npz.h"
#include "tests/testing/files/tensors.h"
#include "tests/testing/files/weights.h"
#include "tests/testing/matchers.h"

namespace attention::server {
namespace {

using ::attention::test::IsOk;
using ::attention::test::MakeZip;
using ::attention::test::PackArray;
using ::attention::test::PackMap;
using ::attention::test::PackNumber;
using ::attention::test::StatusIs;
using ::testing::HasSubstr;

absl::Span<const std::byte> Bytes(const std::string& text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}

absl::StatusOr<const CheckpointFormat*> Recognise(const std::string& file) {
  return RecogniseFormat(Bytes(file), file.size());
}

const CheckpointFormat& Format(absl::string_view name) { return *FindCheckpointFormat(name); }

absl::StatusOr<uint64_t> HeaderEnd(absl::string_view format, const std::string& start, uint64_t file_size) {
  return Format(format).header_end(Bytes(start), file_size);
}

std::string WithLength(uint64_t length, const std::string& header) {
  std::string file;
  for (int i = 0; i < 8; ++i) file += static_cast<char>(length >> (8 * i));
  return file + header;
}

std::string Safetensors() { return test::Serialize({test::FloatParameter("w", {2}, {1, 2})}); }
std::string Msgpack() { return PackMap({{"w", PackArray({2}, "float32", std::string("\0\0\x80\x3F\0\0\0\x40", 8))}}); }
std::string Npz() {
  return MakeZip({{"w.npy", test::MakeNpy("{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }",
                                          std::string("\0\0\x80\x3F\0\0\0\x40", 8))}});
}

struct Good {
  std::string name;
  std::string file;
  std::string format;
};

TEST(FormatTest, RecognisesContent) {
  const Good cases[] = {
      {"safetensors", Safetensors(), "safetensors"},
      {"safetensors whose length looks like a map", WithLength(0x88, "{}"), "safetensors"},
      {"safetensors with an absurd length", WithLength(~uint64_t{7}, "{}"), "safetensors"},
      {"msgpack", Msgpack(), "msgpack"},
      {"empty msgpack", "\x80", "msgpack"},
      {"msgpack of 16 keys", std::string("\xDE\0\x10\xA1", 4), "msgpack"},
      {"msgpack of 65536 keys", std::string("\xDF\0\1\0\0\xA1", 6), "msgpack"},
      {"msgpack with a brace at byte 8", PackMap({{"layers", PackNumber(int64_t{'{'})}}), "msgpack"},
      {"npz", Npz(), "npz"},
      {"npz that starts with a folder", MakeZip({{"a/", ""}}), "npz"},
      {"empty npz", "PK\5\6" + std::string(18, '\0'), "npz"},
  };
  for (const Good& c : cases) {
    const absl::StatusOr<const CheckpointFormat*> format = Recognise(c.file);
    ASSERT_THAT(format, IsOk()) << c.name;
    EXPECT_EQ((*format)->name, c.format) << c.name;
    for (const CheckpointFormat& other : CheckpointFormats()) {
      EXPECT_EQ(other.recognises(c.file), other.name == c.format) << c.name << " as " << other.name;
    }
  }
}

// The header length is the only part of a safetensors file whose bytes can have any value.
TEST(FormatTest, RecognisesSafetensorsWhateverItsHeaderLengthIs) {
  constexpr uint64_t kMost = 100'000'000;
  std::vector<uint64_t> lengths = {0x08'8B1F, 0x04'03'4B50, 0x05'F5'4B50, kMost};
  for (uint64_t length = 2; length < 0x20000; length += 1 + length / 5000) lengths.push_back(length);
  for (uint64_t first = 0; first < 256; ++first) {
    for (const uint64_t rest : {0x02'00, 0x03'00, 0x04'00, 0x05'00, 0xA1'00, 0x01'00'00, 0x05'7D'00'00}) {
      lengths.push_back(rest | first);
    }
  }
  for (const uint64_t length : lengths) {
    for (const char* const header : {R"({"w":{"dtype":"F32")", R"({ "__metadata__")", "{}  ", "{\n\t\"w\""}) {
      std::string start = WithLength(length, header);
      start.resize(kFormatBytes, ' ');
      const auto format = RecogniseFormat(Bytes(start), length + 1000);
      ASSERT_THAT(format, IsOk()) << length << " " << header;
      ASSERT_EQ((*format)->name, "safetensors") << length << " " << header;
      for (const CheckpointFormat& other : CheckpointFormats()) {
        ASSERT_EQ(other.recognises(start), other.name == "safetensors") << length << " as " << other.name;
      }
    }
  }
}

TEST(FormatTest, ReadsSafetensorsOfEveryHeaderLength) {
  const std::string header = R"({"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})";
  for (size_t length = header.size(); length < 0x600; ++length) {
    const std::string file = WithLength(length, header + std::string(length - header.size(), ' ') + "12345678");
    const auto map = test::ParseCheckpoint(Bytes(file));
    ASSERT_THAT(map, IsOk()) << length;
    ASSERT_NE(map->Find("w"), nullptr) << length;
  }
}

TEST(FormatTest, RecognisesSafetensorsThatWereCut) {
  // 640 bytes of header look like the start of a pickle.
  for (const std::string& file : {WithLength(640, "{"), WithLength(640, R"({"w")")}) {
    const auto format = Recognise(file);
    ASSERT_THAT(format, IsOk());
    EXPECT_EQ((*format)->name, "safetensors");
  }
}

TEST(FormatTest, ListsTheFormatsByTheirExtensions) {
  EXPECT_EQ(CheckpointExtensions(), ".safetensors, .msgpack or .npz");
  for (const CheckpointFormat& format : CheckpointFormats()) EXPECT_EQ(FindCheckpointFormat(format.name), &format);
  EXPECT_EQ(FindCheckpointFormat("npy"), nullptr);
}

TEST(FormatTest, TellsHowToConvertUnsupportedFormats) {
  const auto is_unimplemented = [](const char* text) {
    return StatusIs(absl::StatusCode::kUnimplemented, HasSubstr(text));
  };
  const std::string torch = MakeZip({{"archive/data.pkl", "\x80\x02}q."}, {"archive/data/0", "0000"}});
  EXPECT_THAT(Recognise(torch), is_unimplemented("safetensors.torch.save_file(model.state_dict(), "));
  EXPECT_THAT(Recognise(std::string("\x80\x02\x8A\nl\xFC", 6)), is_unimplemented("pickle"));
  EXPECT_THAT(Recognise("\x80\x04\x95"), is_unimplemented("pickle"));
  EXPECT_THAT(Recognise("\x89HDF\r\n\x1A\n"), is_unimplemented("file: HDF5 (Keras, .h5) is not supported"));
}

TEST(FormatTest, RefusesAnythingElse) {
  const auto is_invalid = [](const char* text) {
    return StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(text));
  };
  EXPECT_THAT(Recognise(""), is_invalid("file: empty"));
  EXPECT_THAT(
      Recognise("GGUF\3"),
      is_invalid("file: expected safetensors (a header length and '{') or msgpack (a MessagePack map) or npz (a "
                 "zip file of .npy files), got \"GGUF\\003\" as the first bytes"));
  EXPECT_THAT(Recognise("\x93NUMPY\1"), is_invalid("save all arrays as npz with numpy.savez"));
  EXPECT_THAT(Recognise(MakeZip({{"word/document.xml", "<"}})),
              is_invalid("file: expected an npz file, whose entries end in .npy, got a zip file with the entry "
                         "\"word/document.xml\""));
}

TEST(FormatTest, ParsesEachFormatToTheSameTensors) {
  for (const std::string& file : {Safetensors(), Msgpack(), Npz()}) {
    const absl::StatusOr<TensorMap> map = test::ParseCheckpoint(Bytes(file));
    ASSERT_THAT(map, IsOk());
    ASSERT_EQ(map->tensors.size(), 1u);
    EXPECT_EQ(map->tensors[0].name, "w");
    EXPECT_EQ(map->tensors[0].shape, Shape({2}));
    float values[2];
    ToFloat32(map->tensors[0].dtype, map->tensors[0].data.data(), 2, values);
    EXPECT_THAT(values, ::testing::ElementsAre(1, 2));
  }
}

// A file that counts the bytes that are read of it, and fails from one of them on.
class CountingSource : public ByteSource {
 public:
  explicit CountingSource(const std::string& file, uint64_t readable = ~uint64_t{0})
      : memory_(Bytes(file)), readable_(readable) {}

  uint64_t size() const override { return memory_.size(); }
  absl::Status Read(uint64_t offset, absl::Span<std::byte> to) const override {
    if (offset + to.size() > readable_) return absl::DataLossError("disk error");
    bytes_read += to.size();
    return memory_.Read(offset, to);
  }

  mutable uint64_t bytes_read = 0;

 private:
  const MemorySource memory_;
  const uint64_t readable_;
};

constexpr int64_t kManyFloats = 1 << 20;

TEST(FormatTest, DescribesTensorsWithoutReadingTheirData) {
  const std::string zeros(4 * kManyFloats, '\0');
  const std::string npy = test::MakeNpy("{'descr': '<f4', 'fortran_order': False, 'shape': (1048576,), }", zeros);
  for (const std::string& bytes : {test::Serialize({{"w", DType::kFloat32, {kManyFloats}, zeros}}),
                                   MakeZip({{"w.npy", npy}}), MakeZip({{"w.npy", npy}}, true)}) {
    const CountingSource file(bytes);
    const auto map = (*Recognise(bytes))->describe(file, kUnlimitedBytes);
    ASSERT_THAT(map, IsOk());
    EXPECT_LT(file.bytes_read, 256u << 10);
    const NamedTensor* const w = map->Find("w");
    ASSERT_NE(w, nullptr);
    EXPECT_TRUE(w->data.empty());
    EXPECT_EQ(map->reader->Read(*w)->size(), zeros.size());
  }
}

TEST(FormatTest, PassesOnTheErrorsOfTheDisk) {
  for (const std::string& bytes : {Safetensors(), Msgpack(), Npz()}) {
    for (uint64_t readable = 0; readable < bytes.size(); ++readable) {
      const CountingSource file(bytes, readable);
      absl::StatusOr<TensorMap> map = (*Recognise(bytes))->describe(file, kUnlimitedBytes);
      const absl::Status status = map.ok() ? test::ReadAllTensors(*map) : map.status();
      EXPECT_THAT(status, StatusIs(absl::StatusCode::kDataLoss, HasSubstr("disk error"))) << readable;
    }
  }
}

TEST(FormatTest, LimitsFilesThatAreReadAsAWhole) {
  const std::string file = Msgpack();
  EXPECT_THAT(Format("msgpack").describe(MemorySource(Bytes(file)), file.size()), IsOk());
  EXPECT_THAT(Format("msgpack").describe(MemorySource(Bytes(file)), file.size() - 1),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("--max-weight-bytes")));
}

TEST(FormatTest, FindsTheEndOfTheHeader) {
  const std::string safetensors = Safetensors();
  EXPECT_EQ(HeaderEnd("safetensors", safetensors.substr(0, 9), safetensors.size()).value(), safetensors.size() - 8);
  EXPECT_EQ(HeaderEnd("msgpack", Msgpack(), 1000).value(), 1000u);
  EXPECT_EQ(HeaderEnd("npz", Npz(), 1000).value(), 1000u);
}

TEST(FormatTest, RefusesAnInvalidStartAtOnce) {
  const auto is_invalid = [](const char* text) {
    return StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(text));
  };
  EXPECT_THAT(HeaderEnd("safetensors", "1234567", 7), is_invalid("header length: expected 8 bytes, got 7"));
  EXPECT_THAT(HeaderEnd("safetensors", WithLength(993, "{"), 1000),
              is_invalid("header length: expected 2 to 992, got 993"));
  EXPECT_THAT(HeaderEnd("safetensors", WithLength(992, "{"), 1000), IsOk());
  EXPECT_THAT(HeaderEnd("safetensors", WithLength(100'000'001, "{"), 1 << 30),
              is_invalid("header length: expected 2 to 100000000, got 100000001"));
  EXPECT_THAT(HeaderEnd("safetensors", WithLength(500, "["), 1000),
              is_invalid("header: expected '{' as the first byte, got \"[\""));
  EXPECT_THAT(Format("msgpack").check_start(Bytes("\x81\xA1"
                                                  "a\xC1")),
              is_invalid("msgpack: byte 3 does not start a value"));
  EXPECT_THAT(Format("msgpack").check_start(Bytes("\x80\x01")),
              is_invalid("msgpack: expected the end of the file after the map, at byte 1, got 2 bytes"));
  EXPECT_THAT(Format("msgpack").check_start(Bytes(Msgpack().substr(0, 5))), IsOk());
}

}  // namespace
}  // namespace attention::server
