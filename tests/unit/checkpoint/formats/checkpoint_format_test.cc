#include <gmock/gmock.h>

#include <algorithm>
#include <string>
#include <utility>

#include "server/checkpoint/formats/format.h"
#include "tests/testing/matchers.h"
#include "tests/testing/msgpack.h"
#include "tests/testing/npz.h"
#include "tests/testing/weights.h"

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

absl::StatusOr<CheckpointFormat> Recognise(const std::string& file) {
  return RecogniseFormat(Bytes(file).first(std::min(file.size(), kFormatBytes)), file.size());
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
  CheckpointFormat format;
};

TEST(CheckpointFormatTest, RecognisesContent) {
  const Good cases[] = {
      {"safetensors", Safetensors(), CheckpointFormat::kSafetensors},
      {"safetensors whose length looks like a map", WithLength(0x88, "{}"), CheckpointFormat::kSafetensors},
      {"safetensors with an absurd length", WithLength(~uint64_t{7}, "{}"), CheckpointFormat::kSafetensors},
      {"msgpack", Msgpack(), CheckpointFormat::kMsgpack},
      {"empty msgpack", "\x80", CheckpointFormat::kMsgpack},
      {"msgpack of 16 keys", std::string("\xDE\0\x10\xA1", 4), CheckpointFormat::kMsgpack},
      {"msgpack of 65536 keys", std::string("\xDF\0\1\0\0\xA1", 6), CheckpointFormat::kMsgpack},
      {"msgpack with a brace at byte 8", PackMap({{"layers", PackNumber(int64_t{'{'})}}), CheckpointFormat::kMsgpack},
      {"npz", Npz(), CheckpointFormat::kNpz},
      {"npz that begins with a folder", MakeZip({{"a/", ""}}), CheckpointFormat::kNpz},
      {"empty npz", "PK\5\6" + std::string(18, '\0'), CheckpointFormat::kNpz},
  };
  for (const Good& c : cases) {
    const absl::StatusOr<CheckpointFormat> format = Recognise(c.file);
    ASSERT_THAT(format, IsOk()) << c.name;
    EXPECT_EQ(FormatName(*format), FormatName(c.format)) << c.name;
  }
}

TEST(CheckpointFormatTest, NamesFormatsAsTheirExtensions) {
  EXPECT_EQ(FormatName(CheckpointFormat::kSafetensors), "safetensors");
  EXPECT_EQ(FormatName(CheckpointFormat::kMsgpack), "msgpack");
  EXPECT_EQ(FormatName(CheckpointFormat::kNpz), "npz");
}

TEST(CheckpointFormatTest, SaysHowToConvertWhatItNeverReads) {
  const auto is_unimplemented = [](const char* text) {
    return StatusIs(absl::StatusCode::kUnimplemented, HasSubstr(text));
  };
  const std::string torch = MakeZip({{"archive/data.pkl", "\x80\x02}q."}, {"archive/data/0", "0000"}});
  EXPECT_THAT(Recognise(torch), is_unimplemented("safetensors.torch.save_file(model.state_dict(), "));
  EXPECT_THAT(Recognise(std::string("\x80\x02\x8A\nl\xFC", 6)), is_unimplemented("pickle"));
  EXPECT_THAT(Recognise("\x80\x04\x95"), is_unimplemented("pickle"));
  EXPECT_THAT(Recognise("\x89HDF\r\n\x1A\n"), is_unimplemented("HDF5 (of Keras: .h5)"));
}

TEST(CheckpointFormatTest, RefusesAnythingElse) {
  const auto is_invalid = [](const char* text) {
    return StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(text));
  };
  EXPECT_THAT(Recognise(""), is_invalid("the file is empty"));
  EXPECT_THAT(Recognise("GGUF\3"), is_invalid("wanted safetensors (a header length and '{'), MessagePack (a map) or "
                                              "npz (a zip file), found \"GGUF\\003\" as the first bytes"));
  EXPECT_THAT(Recognise("\x93NUMPY\1"), is_invalid("save all arrays as npz with numpy.savez"));
  EXPECT_THAT(Recognise(MakeZip({{"word/document.xml", "<"}})),
              is_invalid("its first entry is \"word/document.xml\", wanted names that end in .npy"));
}

TEST(CheckpointFormatTest, ParsesEachFormatToTheSameTensors) {
  for (const std::string& file : {Safetensors(), Msgpack(), Npz()}) {
    const absl::StatusOr<CheckpointFormat> format = Recognise(file);
    ASSERT_THAT(format, IsOk());
    const absl::StatusOr<TensorMap> map = ParseCheckpoint(*format, Bytes(file));
    ASSERT_THAT(map, IsOk());
    ASSERT_EQ(map->tensors.size(), 1u);
    EXPECT_EQ(map->tensors[0].name, "w");
    EXPECT_EQ(map->tensors[0].shape, Shape({2}));
    float values[2];
    ToFloat32(map->tensors[0].dtype, map->tensors[0].data.data(), 2, values);
    EXPECT_THAT(values, ::testing::ElementsAre(1, 2));
  }
}

TEST(CheckpointFormatTest, LimitsWhatNpzInflatesTo) {
  EXPECT_THAT(ParseCheckpoint(CheckpointFormat::kNpz, Bytes(Npz()), 10),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("the limit is 10")));
}

TEST(CheckpointFormatTest, FindsTheHeaderOfSafetensorsBeforeTheData) {
  const std::string file = Safetensors();
  const size_t header_ends = file.size() - 8;
  for (size_t size = 0; size <= file.size(); ++size) {
    const absl::StatusOr<bool> there =
        HeaderIsThere(CheckpointFormat::kSafetensors, Bytes(file).first(size), file.size());
    ASSERT_THAT(there, IsOk()) << size;
    EXPECT_EQ(*there, size >= header_ends) << size;
  }
}

TEST(CheckpointFormatTest, WaitsForAllOfMsgpackAndNpz) {
  for (const auto& [format, file] :
       {std::pair(CheckpointFormat::kMsgpack, Msgpack()), std::pair(CheckpointFormat::kNpz, Npz())}) {
    for (size_t size = 0; size <= file.size(); ++size) {
      const absl::StatusOr<bool> there = HeaderIsThere(format, Bytes(file).first(size), file.size());
      ASSERT_THAT(there, IsOk()) << size;
      EXPECT_EQ(*there, size == file.size()) << size;
    }
  }
}

TEST(CheckpointFormatTest, RefusesABadStartAtOnce) {
  const auto check = [](CheckpointFormat format, const std::string& start, uint64_t file_size) {
    return HeaderIsThere(format, Bytes(start), file_size);
  };
  const auto is_invalid = [](const char* text) {
    return StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(text));
  };
  EXPECT_THAT(check(CheckpointFormat::kSafetensors, "1234567", 7), is_invalid("wanted 8 bytes, found 7"));
  EXPECT_THAT(check(CheckpointFormat::kSafetensors, WithLength(993, ""), 1000),
              is_invalid("wanted 2 to 992, found 993"));
  EXPECT_THAT(check(CheckpointFormat::kSafetensors, WithLength(992, ""), 1000), IsOk());
  EXPECT_THAT(check(CheckpointFormat::kSafetensors, WithLength(100'000'001, "{"), 1 << 30), is_invalid("100000000"));
  EXPECT_THAT(check(CheckpointFormat::kSafetensors, WithLength(500, "["), 1000), is_invalid("wanted '{'"));
  EXPECT_THAT(check(CheckpointFormat::kMsgpack,
                    "\x81\xA1"
                    "a\xC1",
                    1000),
              is_invalid("byte 3 begins no value"));
  EXPECT_THAT(check(CheckpointFormat::kMsgpack, "\x80\x01", 1000), is_invalid("wanted nothing behind the map"));
}

}  // namespace
}  // namespace attention::server
