#include <fstream>

#include "tests/unit/weights/repository_fixture.h"

namespace attention::server {
namespace {

using ::attention::test::IsOk;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

namespace fs = std::filesystem;

class RepositoryWatchTest : public RepositoryFixture {
 protected:
  RepositoryWatchTest() {
    // Late enough for every file to be settled.
    options_.now = [] { return absl::InfiniteFuture(); };
    Start();
  }

  // As often as it takes to see a change.
  void Poll() {
    repository_->PollFolder();
    repository_->PollFolder();
  }

  static std::string Content(int version) { return File({""}, static_cast<float>(version)); }
};

TEST_F(RepositoryWatchTest, LoadsFilesThatComeAndChange) {
  Write("shop/ocr.safetensors", Content(1));
  Poll();
  EXPECT_THAT(Served(), ElementsAre("shop/ocr@1"));
  Write("shop/ocr.safetensors", Content(2));
  Poll();
  EXPECT_THAT(Served(), ElementsAre("shop/ocr@2"));
  const WeightSetPtr served = *registry_->Find("shop/ocr");
  Write("shop/ocr.safetensors", Content(2));
  Poll();
  EXPECT_EQ(*registry_->Find("shop/ocr"), served) << "the same bytes";
}

TEST_F(RepositoryWatchTest, SeesALinkThatChangesItsTarget) {
  Write("..v1/ocr.safetensors", Content(1));
  Write("..v2/ocr.safetensors", Content(2));
  fs::create_directory_symlink("..v1", Path("weights/..data"));
  fs::create_symlink("..data/ocr.safetensors", Path("weights/ocr.safetensors"));
  Poll();
  EXPECT_THAT(Served(), ElementsAre("ocr@1"));
  fs::create_directory_symlink("..v2", Path("weights/..new"));
  fs::rename(Path("weights/..new"), Path("weights/..data"));
  Poll();
  EXPECT_THAT(Served(), ElementsAre("ocr@2"));
}

TEST_F(RepositoryWatchTest, UnloadsWhatWentAndTakesItBack) {
  Write("ocr.safetensors", Content(1));
  Poll();
  fs::remove(Path("weights/ocr.safetensors"));
  Poll();
  EXPECT_THAT(Served(), IsEmpty());
  Write("ocr.safetensors", Content(1));
  Poll();
  EXPECT_THAT(Served(), ElementsAre("ocr@2"));
}

TEST_F(RepositoryWatchTest, ServesWhatIsLeftWhereAFileWent) {
  ASSERT_THAT(UploadFile("ocr", Content(1)), IsOk());
  ASSERT_THAT(repository_->SetAlias("ocr", "stable", 1), IsOk());
  Write("ocr.safetensors", Content(2));
  Poll();
  EXPECT_THAT(Served(), ElementsAre("ocr@2", "ocr@1 (stable)"));
  fs::remove(Path("weights/ocr.safetensors"));
  Poll();
  EXPECT_THAT(Served(), ElementsAre("ocr@1 (stable)"));
}

TEST_F(RepositoryWatchTest, LeavesAnUploadWhereAnOlderFileWent) {
  Write("ocr.safetensors", Content(1));
  Poll();
  ASSERT_THAT(UploadFile("ocr", Content(2)), IsOk());
  fs::remove(Path("weights/ocr.safetensors"));
  Poll();
  EXPECT_THAT(Served(), ElementsAre("ocr@2"));
}

TEST_F(RepositoryWatchTest, ServesOnWhereAFileBreaks) {
  Write("ocr.safetensors", Content(1));
  Poll();
  Write("ocr.safetensors", "broken");
  Poll();
  EXPECT_THAT(Served(), ElementsAre("ocr@1"));
  Write("ocr.safetensors", Content(3));
  Poll();
  EXPECT_THAT(Served(), ElementsAre("ocr@2"));
}

TEST_F(RepositoryWatchTest, LeavesWhatIsUnloaded) {
  Write("ocr.safetensors", Content(1));
  Poll();
  ASSERT_THAT(repository_->Unload("ocr"), IsOk());
  Write("ocr.safetensors", Content(2));
  Poll();
  EXPECT_THAT(Served(), IsEmpty());
  EXPECT_EQ(repository_->LoadCheckpoint("ocr")->version, 2);
}

TEST_F(RepositoryWatchTest, DoesNotTakeAFolderThatIsAwayForAnEmptyOne) {
  Write("ocr.safetensors", Content(1));
  Poll();
  fs::rename(Path("weights"), Path("away"));
  Poll();
  EXPECT_THAT(Served(), ElementsAre("ocr@1"));
  fs::rename(Path("away"), Path("weights"));
  Poll();
  EXPECT_THAT(Served(), ElementsAre("ocr@1"));
}

// What was recorded of a file spares the next load its digest.
TEST_F(RepositoryWatchTest, DoesNotHashAnUnchangedFileAgain) {
  Write("ocr.safetensors", Content(1));
  Poll();
  repository_.reset();
  std::ifstream in(Path("weights/.attention/manifest.json"));
  std::string manifest((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  const std::string digest = DigestOf(Content(1)), other(64, '7');
  for (size_t at = manifest.find(digest); at != std::string::npos; at = manifest.find(digest)) {
    manifest.replace(at, 64, other);
  }
  Write(".attention/manifest.json", manifest);
  Start();
  EXPECT_THAT(Served(), ElementsAre("ocr@1"));
  EXPECT_EQ(repository_->LoadCheckpoint("ocr")->sha256, other) << "it was hashed";
}

}  // namespace
}  // namespace attention::server
