// What becomes of versions when the operator's files go, come back, or cannot be read.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "server/weights/repository.h"
#include "tests/testing/matchers.h"
#include "tests/unit/weights/repository_fixture.h"

namespace attention::server {
namespace {

using test::IsOk;
using test::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class RepositoryFileLossTest : public RepositoryFixture {
 protected:
  static std::string Content(int version) { return File({""}, static_cast<float>(version)); }
  void Remove(const std::string& name) const { std::filesystem::remove(Path("weights/" + name)); }
};

TEST_F(RepositoryFileLossTest, KeepsWhatWasUploadedThoughAFileHeldIt) {
  Write("ocr.safetensors", Content(1));
  Start();
  Remove("ocr.safetensors");
  const absl::StatusOr<Published> uploaded = UploadFile("ocr", Content(1));
  ASSERT_THAT(uploaded, IsOk());
  EXPECT_TRUE(uploaded->unchanged);
  Start();
  EXPECT_THAT(Served(), ElementsAre("ocr@1"));
  EXPECT_THAT(Files(), ElementsAre(Blob(Content(1)), ".attention/manifest.json"));
}

TEST_F(RepositoryFileLossTest, TakesAFileThatComesBackAfterAStartWithoutIt) {
  Write("ocr.safetensors", Content(1));
  Start();
  Write("ocr.safetensors", "damaged");
  EXPECT_THAT(Start().broken, ElementsAre(HasSubstr("ocr")));
  EXPECT_THAT(Served(), IsEmpty());
  Write("ocr.safetensors", Content(1));
  EXPECT_THAT(Start().broken, IsEmpty());
  EXPECT_THAT(Served(), ElementsAre("ocr@2"));
}

TEST_F(RepositoryFileLossTest, ServesStoredVersionsBesideTwoFilesOfOneName) {
  Start();
  ASSERT_THAT(UploadFile("ocr", Content(1)), IsOk());
  ASSERT_THAT(repository_->SetAlias("ocr", "stable", 1), IsOk());
  Write("ocr.safetensors", Content(2));
  ASSERT_THAT(repository_->LoadCheckpoint("ocr"), IsOk());
  Write("ocr.npz", "another");
  EXPECT_THAT(Start().broken, testing::Contains(HasSubstr("wanted one of them")));
  EXPECT_THAT(Served(), ElementsAre("ocr@1 (stable)"));
  Remove("ocr.npz");
  EXPECT_THAT(Start().broken, IsEmpty());
  EXPECT_THAT(Served(), ElementsAre("ocr@2", "ocr@1 (stable)")) << "what only the file holds was not forgotten";
}

TEST_F(RepositoryFileLossTest, TakesTheSameBytesWithOtherHeadsForAnotherVersion) {
  Start();
  const auto upload = [&](int64_t num_heads) {
    auto begun = repository_->BeginUpload(
        {.checkpoint = "ocr", .bytes = static_cast<int64_t>(Content(1).size()), .num_heads = num_heads});
    EXPECT_THAT(begun, IsOk());
    EXPECT_THAT((*begun)->Write(Content(1)), IsOk());
    return (*begun)->Commit()->version;
  };
  EXPECT_EQ(upload(1), 1);
  EXPECT_EQ(upload(1), 1);
  EXPECT_EQ(upload(0), 2);
  EXPECT_EQ(upload(0), 2);
  EXPECT_EQ(upload(1), 3);
  EXPECT_EQ(repository_->LoadCheckpoint("ocr")->version, 3);
  EXPECT_THAT(repository_->LoadCheckpoint("ocr", {.num_heads = 2}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       "num_heads: wanted 2, but version 3 of checkpoint ocr was uploaded with 1; upload it again"));
}

}  // namespace
}  // namespace attention::server
