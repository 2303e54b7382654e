#include "server/checkpoint/file.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string>
#include <utility>

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
  const absl::StatusOr<MappedFile> file = MappedFile::Open(Path("f"), "f");
  ASSERT_THAT(file, IsOk());
  EXPECT_EQ(Text(file->bytes()), "text");
}

TEST_F(FileTest, ReadsAnEmptyFile) {
  ASSERT_THAT(WriteFile(Path("f"), "f", {}), IsOk());
  const absl::StatusOr<MappedFile> file = MappedFile::Open(Path("f"), "f");
  ASSERT_THAT(file, IsOk());
  EXPECT_TRUE(file->bytes().empty());
}

TEST_F(FileTest, MapsTheStartOfAnOpenFileAndShowsLaterWrites) {
  folder_.Write("f", "old text");
  const int fd = open(Path("f").c_str(), O_RDWR | O_CLOEXEC);
  ASSERT_GE(fd, 0);
  const absl::StatusOr<MappedFile> file = MappedFile::Map(fd, 3, "f");
  ASSERT_THAT(file, IsOk());
  EXPECT_EQ(Text(file->bytes()), "old");
  ASSERT_EQ(pwrite(fd, "new", 3, 0), 3);
  close(fd);
  EXPECT_EQ(Text(file->bytes()), "new");
}

TEST_F(FileTest, MapsNothingOfAnEmptyFile) {
  const absl::StatusOr<MappedFile> file = MappedFile::Map(-1, 0, "f");
  ASSERT_THAT(file, IsOk());
  EXPECT_TRUE(file->bytes().empty());
}

TEST_F(FileTest, ReportsADescriptorThatCannotBeMapped) {
  EXPECT_THAT(MappedFile::Map(-1, 1, "ocr"),
              StatusIs(absl::StatusCode::kFailedPrecondition, StartsWith("ocr: cannot map")));
}

TEST_F(FileTest, KeepsTheOldContentAfterARename) {
  folder_.Write("f", "old");
  const absl::StatusOr<MappedFile> file = MappedFile::Open(Path("f"), "f");
  ASSERT_THAT(file, IsOk());
  folder_.Write("g", "new");
  std::filesystem::rename(Path("g"), Path("f"));
  EXPECT_EQ(Text(file->bytes()), "old");
}

TEST_F(FileTest, MovesItsMapping) {
  folder_.Write("f", "f");
  folder_.Write("g", "g");
  absl::StatusOr<MappedFile> f = MappedFile::Open(Path("f"), "f");
  absl::StatusOr<MappedFile> g = MappedFile::Open(Path("g"), "g");
  ASSERT_THAT(f, IsOk());
  ASSERT_THAT(g, IsOk());
  *f = *std::move(g);
  const MappedFile moved = *std::move(f);
  EXPECT_EQ(Text(moved.bytes()), "g");
}

TEST_F(FileTest, NamesAMissingFileWithoutItsPath) {
  const auto is_not_found = StatusIs(absl::StatusCode::kNotFound,
                                     AllOf(StartsWith("ocr: cannot open"), Not(HasSubstr(folder_.path().string()))));
  EXPECT_THAT(MappedFile::Open(Path("missing"), "ocr"), is_not_found);
  EXPECT_THAT(WriteFile(Path("missing/f"), "ocr", {}), is_not_found);
}

TEST_F(FileTest, RefusesAnythingButARegularFile) {
  ASSERT_EQ(mkfifo(Path("pipe").c_str(), 0600), 0);
  for (const std::string& path : {Path("."), Path("pipe"), std::string("/dev/null")}) {
    EXPECT_THAT(MappedFile::Open(path, "ocr"), StatusIs(absl::StatusCode::kInvalidArgument, "ocr: not a regular file"))
        << path;
  }
}

TEST_F(FileTest, ReportsAFullDisk) {
  EXPECT_THAT(WriteFile("/dev/full", "ocr", Bytes("text")),
              StatusIs(absl::StatusCode::kResourceExhausted, StartsWith("ocr: cannot write")));
}

}  // namespace
}  // namespace attention::server
