#include "server/checkpoint/formats/format.h"

#include <gmock/gmock.h>

#include <string>
#include <utility>

#include "tests/testing/files/msgpack.h"
#include "tests/testing/files/npz.h"
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

absl::StatusOr<bool> HasHeader(absl::string_view format, const std::string& start, uint64_t file_size) {
  return Format(format).has_header(Bytes(start), file_size);
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
    const absl::StatusOr<const CheckpointFormat*> format = Recognise(file);
    ASSERT_THAT(format, IsOk());
    const absl::StatusOr<TensorMap> map = (*format)->parse(Bytes(file), kUnlimitedBytes);
    ASSERT_THAT(map, IsOk());
    ASSERT_EQ(map->tensors.size(), 1u);
    EXPECT_EQ(map->tensors[0].name, "w");
    EXPECT_EQ(map->tensors[0].shape, Shape({2}));
    float values[2];
    ToFloat32(map->tensors[0].dtype, map->tensors[0].data.data(), 2, values);
    EXPECT_THAT(values, ::testing::ElementsAre(1, 2));
  }
}

TEST(FormatTest, LimitsTheBytesOfInflatedArrays) {
  EXPECT_THAT(Format("npz").parse(Bytes(Npz()), 10),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("npz: expected arrays of at most 10 bytes")));
}

TEST(FormatTest, FindsTheHeaderOfSafetensorsBeforeTheData) {
  const std::string file = Safetensors();
  const size_t header_end = file.size() - 8;
  EXPECT_TRUE(Format("safetensors").header_first);
  for (size_t size = 0; size <= file.size(); ++size) {
    const absl::StatusOr<bool> has_header = HasHeader("safetensors", file.substr(0, size), file.size());
    ASSERT_THAT(has_header, IsOk()) << size;
    EXPECT_EQ(*has_header, size >= header_end) << size;
  }
}

TEST(FormatTest, WaitsForTheWholeFileOfMsgpackAndNpz) {
  for (const auto& [format, file] : {std::pair("msgpack", Msgpack()), std::pair("npz", Npz())}) {
    EXPECT_FALSE(Format(format).header_first);
    for (size_t size = 0; size <= file.size(); ++size) {
      const absl::StatusOr<bool> has_header = HasHeader(format, file.substr(0, size), file.size());
      ASSERT_THAT(has_header, IsOk()) << size;
      EXPECT_EQ(*has_header, size == file.size()) << size;
    }
  }
}

TEST(FormatTest, RefusesAnInvalidStartAtOnce) {
  const auto is_invalid = [](const char* text) {
    return StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(text));
  };
  EXPECT_THAT(HasHeader("safetensors", "1234567", 7), is_invalid("header length: expected 8 bytes, got 7"));
  EXPECT_THAT(HasHeader("safetensors", WithLength(993, ""), 1000),
              is_invalid("header length: expected 2 to 992, got 993"));
  EXPECT_THAT(HasHeader("safetensors", WithLength(992, ""), 1000), IsOk());
  EXPECT_THAT(HasHeader("safetensors", WithLength(100'000'001, "{"), 1 << 30),
              is_invalid("header length: expected 2 to 100000000, got 100000001"));
  EXPECT_THAT(HasHeader("safetensors", WithLength(500, "["), 1000),
              is_invalid("header: expected '{' as the first byte, got \"[\""));
  EXPECT_THAT(HasHeader("msgpack",
                        "\x81\xA1"
                        "a\xC1",
                        1000),
              is_invalid("msgpack: byte 3 does not start a value"));
  EXPECT_THAT(HasHeader("msgpack", "\x80\x01", 1000),
              is_invalid("msgpack: expected the end of the file after the map, at byte 1, got 2 bytes"));
}

}  // namespace
}  // namespace attention::server
