// Replaced versions: which are kept, what is refused, and what a load says that it removed.

#include "tests/unit/weights/repository_fixture.h"

namespace attention::server {
namespace {

using ::attention::test::IsOk;
using ::attention::test::StatusIs;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

class RepositoryVersionsTest : public RepositoryFixture {
 protected:
  RepositoryVersionsTest() {
    options_.keep_versions = 2;
    options_.now = [] { return absl::InfiniteFuture(); };
    Start();
  }
};

TEST_F(RepositoryVersionsTest, KeepsTheHighestVersions) {
  EXPECT_THAT(UploadFile("ocr", Content(1))->dropped_versions, IsEmpty());
  EXPECT_THAT(UploadFile("ocr", Content(2))->dropped_versions, IsEmpty());
  EXPECT_THAT(Served(), ElementsAre("ocr@2", "ocr@1"));
  EXPECT_THAT(UploadFile("ocr", Content(3))->dropped_versions, ElementsAre(1));
  EXPECT_THAT(Served(), ElementsAre("ocr@3", "ocr@2"));
  ASSERT_THAT(repository_->SetAlias("ocr", "stable", 2), IsOk());
  EXPECT_THAT(UploadFile("ocr", Content(4))->dropped_versions, IsEmpty());
  EXPECT_THAT(UploadFile("ocr", Content(5))->dropped_versions, ElementsAre(3));
  Start();
  EXPECT_THAT(Served(), ElementsAre("ocr@5", "ocr@4", "ocr@2 (stable)"));
}

TEST_F(RepositoryVersionsTest, KeepsTheVersionOfAFileThatAnUploadReplaces) {
  Write("ocr.safetensors", Content(1));
  ASSERT_THAT(repository_->LoadCheckpoint("ocr"), IsOk());
  ASSERT_THAT(UploadFile("ocr", Content(2)), IsOk());
  Start();
  EXPECT_THAT(Served(), ElementsAre("ocr@2", "ocr@1"));
  EXPECT_THAT(UploadFile("ocr", Content(3))->dropped_versions, ElementsAre(1));
  EXPECT_THAT(Files(), ElementsAre(Blob(Content(3)) < Blob(Content(2)) ? Blob(Content(3)) : Blob(Content(2)),
                                   Blob(Content(3)) < Blob(Content(2)) ? Blob(Content(2)) : Blob(Content(3)),
                                   ".attention/manifest.json", "ocr.safetensors"));
}

TEST_F(RepositoryVersionsTest, ServesTheVersionOfAReplacedFileUntilItStops) {
  Write("ocr.safetensors", Content(1));
  ASSERT_THAT(repository_->LoadCheckpoint("ocr"), IsOk());
  Write("ocr.safetensors", Content(2));
  ASSERT_THAT(repository_->LoadCheckpoint("ocr"), IsOk());
  EXPECT_THAT(Served(), ElementsAre("ocr@2", "ocr@1"));
  EXPECT_THAT(Start().broken, IsEmpty());
  EXPECT_THAT(Served(), ElementsAre("ocr@2"));
}

TEST_F(RepositoryVersionsTest, MakesANewVersionOfAFileThatBringsOldContentBack) {
  Write("ocr.safetensors", Content(1));
  ASSERT_THAT(repository_->LoadCheckpoint("ocr"), IsOk());
  Write("ocr.safetensors", Content(2));
  ASSERT_THAT(repository_->LoadCheckpoint("ocr"), IsOk());
  repository_.reset();
  Write("ocr.safetensors", Content(1));
  EXPECT_THAT(Start().broken, IsEmpty());
  EXPECT_THAT(Served(), ElementsAre("ocr@3")) << "version numbers only rise";
}

TEST_F(RepositoryVersionsTest, DropsAllVersionsOfARemovedFile) {
  // A change is handled by the second call that sees it.
  const auto poll = [this] {
    repository_->PollFolder();
    repository_->PollFolder();
  };
  Write("ocr.safetensors", Content(1));
  poll();
  Write("ocr.safetensors", Content(2));
  poll();
  EXPECT_THAT(Served(), ElementsAre("ocr@2", "ocr@1"));
  std::filesystem::remove(Path("weights/ocr.safetensors"));
  poll();
  EXPECT_THAT(Served(), IsEmpty());
}

TEST_F(RepositoryVersionsTest, RefusesToReplaceWeightSetsThatTheFileLacks) {
  ASSERT_THAT(UploadFile("ocr", File({"a/", "b/", "d/"})), IsOk());
  const auto refused = StatusIs(absl::StatusCode::kFailedPrecondition,
                                "replace: expected true to replace version 1, because the new one lacks the weight "
                                "sets ocr/a, ocr/d, got false");
  EXPECT_THAT(UploadFile("ocr", File({"b/", "c/"})), refused);
  Write("ocr.safetensors", File({"b/", "c/"}));
  EXPECT_THAT(repository_->LoadCheckpoint("ocr"), refused);
  EXPECT_THAT(Served(), ElementsAre("ocr/a@1", "ocr/b@1", "ocr/d@1"));
  ASSERT_THAT(repository_->Unload("ocr"), IsOk());
  EXPECT_THAT(UploadFile("ocr", File({"b/", "c/"})), refused) << "while it is unloaded";
  EXPECT_THAT(Served(), IsEmpty());

  const absl::StatusOr<Published> replaced = UploadFile("ocr", File({"b/", "c/"}), true);
  ASSERT_THAT(replaced, IsOk());
  EXPECT_EQ(replaced->version, 2) << "refused loads use no number";
  EXPECT_THAT(replaced->removed_weight_sets, ElementsAre("ocr/a", "ocr/d"));
  EXPECT_THAT(Served(), ElementsAre("ocr/a@1", "ocr/b@2", "ocr/b@1", "ocr/c@2", "ocr/d@1"));
  const absl::StatusOr<Published> more = UploadFile("ocr", File({"b/", "c/", "e/"}));
  ASSERT_THAT(more, IsOk()) << "only the version before counts";
  EXPECT_THAT(more->removed_weight_sets, IsEmpty());
}

TEST_F(RepositoryVersionsTest, NamesTenOfManyMissingWeightSets) {
  std::vector<std::string> paths;
  for (char letter = 'a'; letter <= 'l'; ++letter) paths.push_back(std::string(1, letter) + "/");
  ASSERT_THAT(UploadFile("ocr", File(paths)), IsOk());
  EXPECT_THAT(UploadFile("ocr", File()),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       "replace: expected true to replace version 1, because the new one lacks the weight sets ocr/a, "
                       "ocr/b, ocr/c, ocr/d, ocr/e, ocr/f, ocr/g, ocr/h, ocr/i, ocr/j and 2 more, got false"));
}

TEST_F(RepositoryVersionsTest, TakesAFileWithOtherLayersAtTheStart) {
  Write("ocr.safetensors", File({"a/"}));
  Start();
  Write("ocr.safetensors", File({"b/"}));
  EXPECT_THAT(Start().broken, IsEmpty());
  EXPECT_THAT(Served(), ElementsAre("ocr/b@2"));
}

TEST_F(RepositoryVersionsTest, DropsOldVersionsThatDoNotFitBesideANewOne) {
  options_.max_weight_bytes = 2 * kOnesBytes;
  Start();
  ASSERT_THAT(UploadFile("ocr", Content(1)), IsOk());
  EXPECT_THAT(UploadFile("ocr", Content(2))->dropped_versions, IsEmpty());
  ASSERT_THAT(UploadFile("sign", Content(3)),
              StatusIs(absl::StatusCode::kResourceExhausted, ::testing::HasSubstr("--max-weight-bytes")))
      << "a version makes room only for its own checkpoint";
  options_.max_weight_bytes = kOnesBytes;
  EXPECT_THAT(Start().broken, IsEmpty());
  EXPECT_THAT(Served(), ElementsAre("ocr@2")) << "the highest version comes first";
  options_.max_weight_bytes = 2 * kOnesBytes - 1;
  Start();
  EXPECT_THAT(UploadFile("ocr", Content(4))->dropped_versions, ElementsAre(1, 2));
  EXPECT_THAT(Served(), ElementsAre("ocr@3"));
}

}  // namespace
}  // namespace attention::server
