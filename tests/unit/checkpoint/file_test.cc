#include "server/checkpoint/file.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/stat.h>

#include <string>

#include "tests/testing/files/temporary_folder.h"
#include "tests/testing/matchers.h"

namespace attention::server {
namespace {

using ::attention::test::IsOk;
using ::attention::test::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

absl::Span<const std::byte> Bytes(absl::string_view text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}

std::string Text(absl::Span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

class FileTest : public ::testing::Test {
 protected:
  std::string Path(const std::string& name) const { return (folder_.path() / name).string(); }

  test::TemporaryFolder folder_;
};

TEST_F(FileTest, OverwritesAndReadsAFile) {
  ASSERT_THAT(WriteFile(Path("f"), "f", Bytes("a longer text")), IsOk());
  ASSERT_THAT(WriteFile(Path("f"), "f", Bytes("text")), IsOk());
  const auto bytes = ReadFile(Path("f"), "f");
  ASSERT_THAT(bytes, IsOk());
  EXPECT_EQ(Text(*bytes), "text");
}

TEST_F(FileTest, ReadsAnEmptyFile) {
  ASSERT_THAT(WriteFile(Path("f"), "f", {}), IsOk());
  const auto bytes = ReadFile(Path("f"), "f");
  ASSERT_THAT(bytes, IsOk());
  EXPECT_TRUE(bytes->empty());
}

TEST_F(FileTest, ReadsAPartOfAnOpenFile) {
  folder_.Write("f", "some text");
  const absl::StatusOr<OpenedFile> file = OpenFile(Path("f"), "f");
  ASSERT_THAT(file, IsOk());
  EXPECT_EQ(file->bytes.size(), 9u);
  EXPECT_EQ(Text(ReadRange(file->bytes, 5, 3).value()), "tex");
  EXPECT_THAT(ReadRange(file->bytes, 9, 0), IsOk());
}

TEST_F(FileTest, KeepsTheOldContentAfterARename) {
  folder_.Write("f", "old");
  const absl::StatusOr<OpenedFile> file = OpenFile(Path("f"), "f");
  ASSERT_THAT(file, IsOk());
  folder_.Write("g", "new");
  std::filesystem::rename(Path("g"), Path("f"));
  EXPECT_EQ(Text(ReadRange(file->bytes, 0, 3).value()), "old");
}

TEST_F(FileTest, ReportsAFileThatBecameShorter) {
  folder_.Write("f", std::string(10'000, 'x'));
  const absl::StatusOr<OpenedFile> file = OpenFile(Path("f"), "ocr");
  ASSERT_THAT(file, IsOk());
  std::filesystem::resize_file(Path("f"), 4000);
  EXPECT_THAT(ReadRange(file->bytes, 0, 4000), IsOk());
  EXPECT_THAT(ReadRange(file->bytes, 1000, 9000),
              StatusIs(absl::StatusCode::kAborted,
                       "ocr: expected 10000 bytes, got at most 4000: the file became shorter while it was read"));
}

// Address 0 of a process cannot be read, which is EIO like a broken disk.
TEST_F(FileTest, ReportsADiskThatCannotBeRead) {
  const FileDescriptor memory(open("/proc/self/mem", O_RDONLY | O_CLOEXEC));
  ASSERT_TRUE(memory.is_open());
  EXPECT_THAT(ReadRange(FileReader(memory, 10, "ocr"), 0, 10),
              StatusIs(absl::StatusCode::kDataLoss, "ocr: cannot read byte 0: disk error"));
}

TEST_F(FileTest, ReportsADescriptorThatCannotBeRead) {
  EXPECT_THAT(ReadRange(FileReader(FileDescriptor(-1), 1, "ocr"), 0, 1),
              StatusIs(absl::StatusCode::kFailedPrecondition, StartsWith("ocr: cannot read")));
}

TEST_F(FileTest, NamesAMissingFileWithoutItsPath) {
  const auto is_not_found = StatusIs(absl::StatusCode::kNotFound,
                                     AllOf(StartsWith("ocr: cannot open"), Not(HasSubstr(folder_.path().string()))));
  EXPECT_THAT(OpenFile(Path("missing"), "ocr"), is_not_found);
  EXPECT_THAT(WriteFile(Path("missing/f"), "ocr", {}), is_not_found);
}

TEST_F(FileTest, RefusesAnythingButARegularFile) {
  ASSERT_EQ(mkfifo(Path("pipe").c_str(), 0600), 0);
  for (const std::string& path : {Path("."), Path("pipe"), std::string("/dev/null")}) {
    EXPECT_THAT(OpenFile(path, "ocr"), StatusIs(absl::StatusCode::kInvalidArgument, "ocr: not a regular file")) << path;
  }
}

TEST_F(FileTest, ReportsAFullDisk) {
  EXPECT_THAT(WriteFile("/dev/full", "ocr", Bytes("text")),
              StatusIs(absl::StatusCode::kResourceExhausted, StartsWith("ocr: cannot write")));
}

}  // namespace
}  // namespace attention::server
