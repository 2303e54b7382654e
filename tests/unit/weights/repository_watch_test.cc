// PollFolder.

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
    // Every file is settled.
    options_.now = [] { return absl::InfiniteFuture(); };
    Start();
  }

  // A change is handled by the second call that sees it.
  void Poll() {
    repository_->PollFolder();
    repository_->PollFolder();
  }
};

TEST_F(RepositoryWatchTest, LoadsAddedAndChangedFiles) {
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

TEST_F(RepositoryWatchTest, NoticesALinkWithANewTarget) {
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

TEST_F(RepositoryWatchTest, UnloadsARemovedFileAndLoadsItWhenItReturns) {
  Write("ocr.safetensors", Content(1));
  Poll();
  fs::remove(Path("weights/ocr.safetensors"));
  Poll();
  EXPECT_THAT(Served(), IsEmpty());
  Write("ocr.safetensors", Content(1));
  Poll();
  EXPECT_THAT(Served(), ElementsAre("ocr@2"));
}

TEST_F(RepositoryWatchTest, KeepsVersionsWithABlobWhenTheFileIsRemoved) {
  ASSERT_THAT(UploadFile("ocr", Content(1)), IsOk());
  ASSERT_THAT(repository_->SetAlias("ocr", "stable", 1), IsOk());
  Write("ocr.safetensors", Content(2));
  Poll();
  EXPECT_THAT(Served(), ElementsAre("ocr@2", "ocr@1 (stable)"));
  fs::remove(Path("weights/ocr.safetensors"));
  Poll();
  EXPECT_THAT(Served(), ElementsAre("ocr@1 (stable)"));
}

TEST_F(RepositoryWatchTest, KeepsAnUploadWhenAnOlderFileIsRemoved) {
  Write("ocr.safetensors", Content(1));
  Poll();
  ASSERT_THAT(UploadFile("ocr", Content(2)), IsOk());
  fs::remove(Path("weights/ocr.safetensors"));
  Poll();
  EXPECT_THAT(Served(), ElementsAre("ocr@2"));
}

TEST_F(RepositoryWatchTest, KeepsServingWhenAFileBreaks) {
  Write("ocr.safetensors", Content(1));
  Poll();
  Write("ocr.safetensors", "broken");
  Poll();
  EXPECT_THAT(Served(), ElementsAre("ocr@1"));
  Write("ocr.safetensors", Content(3));
  Poll();
  EXPECT_THAT(Served(), ElementsAre("ocr@2"));
}

TEST_F(RepositoryWatchTest, IgnoresFilesOfUnloadedCheckpoints) {
  Write("ocr.safetensors", Content(1));
  Poll();
  ASSERT_THAT(repository_->Unload("ocr"), IsOk());
  Write("ocr.safetensors", Content(2));
  Poll();
  EXPECT_THAT(Served(), IsEmpty());
  EXPECT_EQ(repository_->LoadCheckpoint("ocr")->version, 2);
}

TEST_F(RepositoryWatchTest, DoesNotMistakeAnUnreadableFolderForAnEmptyOne) {
  Write("ocr.safetensors", Content(1));
  Poll();
  fs::rename(Path("weights"), Path("away"));
  Poll();
  EXPECT_THAT(Served(), ElementsAre("ocr@1"));
  fs::rename(Path("away"), Path("weights"));
  Poll();
  EXPECT_THAT(Served(), ElementsAre("ocr@1"));
}

// The digest recorded for an unchanged file is used instead of hashing it.
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

// A write takes time in proportion to all checkpoints, so one for each of them would make the time quadratic.
TEST_F(RepositoryWatchTest, WritesTheManifestOnceForManyFiles) {
  int writes = 0;
  options_.before_disk_step = [&](absl::string_view step) {
    if (step == "rename manifest.json") ++writes;
    return absl::OkStatus();
  };
  for (const char* name : {"a", "b", "c", "d"}) Write(absl::StrCat(name, ".safetensors"), Content(1));
  Start();
  EXPECT_EQ(writes, 1) << "the first start";
  Start();
  EXPECT_EQ(writes, 1) << "a start that changes nothing";
  for (const char* name : {"b", "c", "e"}) Write(absl::StrCat(name, ".safetensors"), Content(2));
  fs::remove(Path("weights/d.safetensors"));
  Poll();
  EXPECT_EQ(writes, 2);
  EXPECT_THAT(Served(), ElementsAre("a@1", "b@2", "c@2", "e@1"));
  Start();
  EXPECT_EQ(writes, 2);
  EXPECT_THAT(Served(), ElementsAre("a@1", "b@2", "c@2", "e@1"));
}

TEST_F(RepositoryWatchTest, ServesFilesThatTheManifestCannotRecordAndRecordsThemLater) {
  bool is_full = true;
  options_.before_disk_step = [&](absl::string_view step) {
    const bool fails = is_full && step == "rename manifest.json";
    return fails ? absl::ResourceExhaustedError("full") : absl::OkStatus();
  };
  Write("a.safetensors", Content(1));
  EXPECT_THAT(Start().broken, ElementsAre(".attention: full"));
  EXPECT_THAT(Served(), ElementsAre("a@1"));
  is_full = false;
  ASSERT_THAT(UploadFile("b", Content(2)), IsOk());
  Write("a.safetensors", Content(3));
  Start();
  EXPECT_THAT(Served(), ElementsAre("a@2", "b@1")) << "the upload has recorded version 1 of \"a\"";
}

}  // namespace
}  // namespace attention::server
