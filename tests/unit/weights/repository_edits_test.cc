// Unload, Delete and SetAlias.

#include <fstream>

#include "server/weights/store/manifest.h"
#include "tests/unit/weights/repository_fixture.h"

namespace attention::server {
namespace {

using ::attention::test::IsOk;
using ::attention::test::StatusIs;
using ::testing::_;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

namespace fs = std::filesystem;

class RepositoryEditsTest : public RepositoryFixture {
 protected:
  RepositoryEditsTest() { Start(); }

  // Uploads Content(1) to Content(3) as versions 1 to 3; 1 is stable, 2 canary, 3 the highest.
  void UploadThree() {
    ASSERT_THAT(UploadFile("ocr", Content(1)), IsOk());
    ASSERT_THAT(repository_->SetAlias("ocr", "stable", 1), IsOk());
    ASSERT_THAT(UploadFile("ocr", Content(2)), IsOk());
    ASSERT_THAT(repository_->SetAlias("ocr", "canary", 2), IsOk());
    ASSERT_THAT(UploadFile("ocr", Content(3)), IsOk());
  }
};

TEST_F(RepositoryEditsTest, KeepsTheHighestVersionAndThoseWithAnAlias) {
  UploadThree();
  EXPECT_THAT(Served(), ElementsAre("ocr@3", "ocr@2 (canary)", "ocr@1 (stable)"));
  ASSERT_THAT(UploadFile("ocr", Content(4)), IsOk());
  EXPECT_THAT(Served(), ElementsAre("ocr@4", "ocr@2 (canary)", "ocr@1 (stable)"));
  const absl::StatusOr<int64_t> moved = repository_->SetAlias("ocr", "stable", 4);
  ASSERT_THAT(moved, IsOk());
  EXPECT_EQ(*moved, 1);
  EXPECT_THAT(Served(), ElementsAre("ocr@4 (stable)", "ocr@2 (canary)"));
  EXPECT_EQ(*repository_->SetAlias("ocr", "canary", 0), 2);
  EXPECT_THAT(Served(), ElementsAre("ocr@4 (stable)"));
  EXPECT_EQ(*repository_->SetAlias("ocr", "canary", 0), 0);
  EXPECT_THAT(Files(), ElementsAre(Blob(Content(4)), ".attention/manifest.json"));
  Start();
  EXPECT_THAT(Served(), ElementsAre("ocr@4 (stable)"));
}

TEST_F(RepositoryEditsTest, MovesAnAliasOnlyFromTheExpectedVersion) {
  UploadThree();
  struct Case {
    std::string alias;
    int64_t version, expected;
    std::string current;
  };
  for (const Case& c : std::vector<Case>{{"stable", 2, 0, "1"}, {"stable", 0, 3, "1"}, {"new", 2, 1, "0"}}) {
    EXPECT_THAT(repository_->SetAlias("ocr", c.alias, c.version, c.expected),
                StatusIs(absl::StatusCode::kAborted,
                         "expected_version: expected " + c.current + " as named by alias \"" + c.alias +
                             "\" of checkpoint \"ocr\", got " + std::to_string(c.expected)));
  }
  EXPECT_THAT(Served(), ElementsAre("ocr@3", "ocr@2 (canary)", "ocr@1 (stable)"));
  EXPECT_EQ(*repository_->SetAlias("ocr", "new", 2, 0), 0);
  EXPECT_EQ(*repository_->SetAlias("ocr", "stable", 3, 1), 1);
  EXPECT_THAT(Served(), ElementsAre("ocr@3 (stable)", "ocr@2 (canary) (new)"));
}

TEST_F(RepositoryEditsTest, RejectsAnAliasOfAMissingVersion) {
  UploadThree();
  EXPECT_THAT(repository_->SetAlias("ocr", "stable", 4),
              StatusIs(absl::StatusCode::kNotFound, R"(version: checkpoint "ocr" has no version 4, only 1, 2, 3)"));
  EXPECT_THAT(repository_->SetAlias("sign", "stable", 1),
              StatusIs(absl::StatusCode::kNotFound, R"(checkpoint: no checkpoint named "sign" exists)"));
  EXPECT_THAT(repository_->SetAlias("ocr", "Stable", 1), StatusIs(absl::StatusCode::kInvalidArgument, _));
}

TEST_F(RepositoryEditsTest, CopiesAnOperatorFileWhoseVersionGetsAnAlias) {
  Write("ocr.safetensors", Content(1));
  ASSERT_THAT(repository_->LoadCheckpoint("ocr"), IsOk());
  ASSERT_THAT(repository_->SetAlias("ocr", "stable", 1), IsOk());
  EXPECT_THAT(Files(), ElementsAre(Blob(Content(1)), ".attention/manifest.json", "ocr.safetensors"));
  Write("ocr.safetensors", Content(2));
  ASSERT_THAT(repository_->LoadCheckpoint("ocr"), IsOk());
  EXPECT_THAT(Served(), ElementsAre("ocr@2", "ocr@1 (stable)"));
  Start();
  EXPECT_THAT(Served(), ElementsAre("ocr@2", "ocr@1 (stable)"));
  Write("ocr.safetensors", Content(3));
  EXPECT_THAT(
      repository_->SetAlias("ocr", "canary", 2),
      StatusIs(absl::StatusCode::kFailedPrecondition,
               "version: version 2 of checkpoint \"ocr\" was held only by its file in the weights folder, which "
               "has changed"));
}

TEST_F(RepositoryEditsTest, StaysUnloadedUntilItIsLoaded) {
  UploadThree();
  const WeightSetPtr held = *registry_->Find("ocr");
  const absl::StatusOr<int64_t> unloaded = repository_->Unload("ocr");
  ASSERT_THAT(unloaded, IsOk());
  EXPECT_EQ(*unloaded, 3);
  EXPECT_EQ(held.use_count(), 1) << "the repository keeps nothing in memory";
  EXPECT_THAT(Served(), IsEmpty());
  EXPECT_THAT(repository_->Unload("ocr"),
              StatusIs(absl::StatusCode::kNotFound, R"(checkpoint: no checkpoint named "ocr" is loaded)"));
  EXPECT_EQ(Start().loaded, 0);
  EXPECT_THAT(Served(), IsEmpty());
  ASSERT_THAT(repository_->SetAlias("ocr", "canary", 3), IsOk()) << "works while it is unloaded";
  EXPECT_THAT(Served(), IsEmpty());
  const absl::StatusOr<Published> loaded = repository_->LoadCheckpoint("ocr");
  ASSERT_THAT(loaded, IsOk());
  EXPECT_EQ(loaded->version, 3);
  EXPECT_FALSE(loaded->unchanged);
  EXPECT_THAT(Describe(loaded->weight_sets), ElementsAre("ocr@3 (canary)"));
  EXPECT_THAT(Served(), ElementsAre("ocr@3 (canary)", "ocr@1 (stable)"));
  EXPECT_TRUE(repository_->LoadCheckpoint("ocr")->unchanged);
}

TEST_F(RepositoryEditsTest, GivesMemoryBackAfterUnloadAndDelete) {
  int calls = 0;
  options_.give_back_memory = [&] {
    ++calls;
    EXPECT_THAT(Served(), IsEmpty());
  };
  Start();
  ASSERT_THAT(UploadFile("ocr", Content(1)), IsOk());
  ASSERT_THAT(UploadFile("ocr", Content(2)), IsOk());
  EXPECT_THAT(repository_->Delete("ocr", 7), StatusIs(absl::StatusCode::kNotFound, _));
  EXPECT_EQ(calls, 0);
  ASSERT_THAT(repository_->Unload("ocr"), IsOk());
  EXPECT_EQ(calls, 1);
  ASSERT_THAT(repository_->Delete("ocr", 0), IsOk());
  EXPECT_EQ(calls, 2);
}

TEST_F(RepositoryEditsTest, LoadsTheOperatorFileAfterAnUnload) {
  Write("ocr.safetensors", Content(1));
  ASSERT_THAT(repository_->LoadCheckpoint("ocr"), IsOk());
  ASSERT_THAT(repository_->Unload("ocr"), IsOk());
  Start();
  EXPECT_THAT(Served(), IsEmpty());
  EXPECT_EQ(repository_->LoadCheckpoint("ocr")->version, 1) << "the same content is the same version";
  ASSERT_THAT(repository_->Unload("ocr"), IsOk());
  Write("ocr.safetensors", Content(2));
  EXPECT_EQ(repository_->LoadCheckpoint("ocr")->version, 2);
}

TEST_F(RepositoryEditsTest, DeletesOneVersion) {
  UploadThree();
  EXPECT_THAT(repository_->Delete("ocr", 2),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       R"(version: version 2 of checkpoint "ocr" has the alias "canary")"));
  EXPECT_THAT(repository_->Delete("ocr", 4),
              StatusIs(absl::StatusCode::kNotFound, R"(version: checkpoint "ocr" has no version 4, only 1, 2, 3)"));
  EXPECT_THAT(repository_->Delete("ocr", 3)->versions, ElementsAre(3));
  EXPECT_THAT(Served(), ElementsAre("ocr@2 (canary)", "ocr@1 (stable)"));
  EXPECT_EQ((*registry_->Find("ocr"))->version, 2);
  Start();
  EXPECT_THAT(Served(), ElementsAre("ocr@2 (canary)", "ocr@1 (stable)"));
  EXPECT_EQ(UploadFile("ocr", Content(3))->version, 4) << "numbers are never reused";
}

TEST_F(RepositoryEditsTest, DeletesAllVersions) {
  UploadThree();
  Write("ocr.safetensors", Content(4));
  Write("ocr.npz", "another mistake");
  const absl::StatusOr<Deleted> deleted = repository_->Delete("ocr", 0);
  ASSERT_THAT(deleted, IsOk());
  EXPECT_THAT(deleted->versions, ElementsAre(1, 2, 3));
  EXPECT_THAT(deleted->removed_files, ElementsAre("ocr.npz", "ocr.safetensors"));
  EXPECT_THAT(deleted->remaining_files, IsEmpty());
  EXPECT_THAT(Served(), IsEmpty());
  EXPECT_THAT(Files(), ElementsAre(".attention/manifest.json"));
  EXPECT_THAT(repository_->Delete("ocr", 0),
              StatusIs(absl::StatusCode::kNotFound, R"(checkpoint: no checkpoint named "ocr" exists)"));
  EXPECT_THAT(repository_->LoadCheckpoint("ocr"), StatusIs(absl::StatusCode::kNotFound, _));
  EXPECT_EQ(Start().loaded, 0);
  EXPECT_EQ(UploadFile("ocr", Content(1))->version, 4);
}

TEST_F(RepositoryEditsTest, DeletesTheOperatorFileWithItsVersion) {
  ASSERT_THAT(UploadFile("ocr", Content(1)), IsOk());
  ASSERT_THAT(repository_->SetAlias("ocr", "stable", 1), IsOk());
  Write("ocr.safetensors", Content(2));
  ASSERT_THAT(repository_->LoadCheckpoint("ocr"), IsOk());
  EXPECT_THAT(repository_->Delete("ocr", 2)->versions, ElementsAre(2));
  EXPECT_THAT(Files(), ElementsAre(Blob(Content(1)), ".attention/manifest.json"));
  EXPECT_THAT(Served(), ElementsAre("ocr@1 (stable)"));
}

TEST_F(RepositoryEditsTest, KeepsAnOperatorFileWithOtherContent) {
  Write("ocr.safetensors", Content(1));
  ASSERT_THAT(repository_->LoadCheckpoint("ocr"), IsOk());
  ASSERT_THAT(UploadFile("ocr", Content(2)), IsOk());
  EXPECT_THAT(repository_->Delete("ocr", 2)->versions, ElementsAre(2));
  EXPECT_THAT(Files(), ElementsAre(".attention/manifest.json", "ocr.safetensors"));
}

TEST_F(RepositoryEditsTest, DeletesALinkButNotItsTarget) {
  Write("..data/v1.safetensors", Content(1));
  fs::create_symlink("..data/v1.safetensors", Path("weights/ocr.safetensors"));
  ASSERT_THAT(repository_->LoadCheckpoint("ocr"), IsOk());
  EXPECT_THAT(repository_->Delete("ocr", 0)->versions, ElementsAre(1));
  EXPECT_THAT(Files(), ElementsAre("..data/v1.safetensors", ".attention/manifest.json"));
}

TEST_F(RepositoryEditsTest, DeletesAFileThatWasNeverServed) {
  Write("ocr.safetensors", "broken");
  EXPECT_THAT(repository_->Delete("ocr", 0)->versions, IsEmpty());
  EXPECT_THAT(Files(), ElementsAre(".attention/manifest.json"));
}

// The names of deleted checkpoints are kept for their numbers, but not for ever.
TEST_F(RepositoryEditsTest, ForgetsNamesOfDeletedCheckpointsButReusesNoNumber) {
  repository_.reset();
  Manifest manifest;
  for (int i = 0; i < 1001; ++i) manifest.checkpoints[absl::StrCat("deleted", i)].last_version = 1;
  manifest.checkpoints["often"].last_version = 7;
  Write(".attention/manifest.json", SerializeManifest(manifest));
  Start();
  EXPECT_EQ(UploadFile("new", Content(1))->version, 1);
  const auto remaining = [&] {
    std::ifstream in(Path("weights/.attention/manifest.json"));
    const std::string text((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
    return ParseManifest(text)->checkpoints.size();
  };
  EXPECT_EQ(remaining(), 1001u) << "1000 of those that were deleted";
  EXPECT_EQ(UploadFile("deleted0", Content(1))->version, 2) << "it was forgotten";
  EXPECT_EQ(UploadFile("often", Content(1))->version, 8);
  Start();
  EXPECT_THAT(Served(), ElementsAre("deleted0@2", "new@1", "often@8"));
  EXPECT_EQ(UploadFile("another", Content(1))->version, 2);
}

}  // namespace
}  // namespace attention::server
