// Simulates a crash at every moment of every change: each change is repeated, and all disk operations fail from the
// first one on, from the second one on, and so on. A server that starts on what is left must serve what was
// acknowledged and leave no garbage.

#include <fstream>
#include <functional>
#include <set>

#include "absl/strings/match.h"
#include "tests/unit/weights/repository_fixture.h"

namespace attention::server {
namespace {

using ::attention::test::IsOk;
using ::attention::test::StatusIs;
using ::testing::_;
using ::testing::AnyOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

namespace fs = std::filesystem;

using State = std::vector<std::string>;

absl::Status UploadTo(Repository& repository, const std::string& checkpoint, const std::string& file) {
  auto upload = repository.BeginUpload({.checkpoint = checkpoint, .bytes = static_cast<int64_t>(file.size())});
  if (!upload.ok()) return upload.status();
  for (size_t done = 0; done < file.size(); done += 400) {
    if (auto status = (*upload)->Write(absl::string_view(file).substr(done, 400)); !status.ok()) return status;
  }
  return (*upload)->Commit().status();
}

struct Change {
  std::string name;
  std::function<absl::Status(Repository& repository)> run;
  int64_t keep_versions = 1;
};

// Each starts from the state that SetUp creates.
const Change kChanges[] = {
    {"Upload", [](Repository& r) { return UploadTo(r, "ocr", Content(4)); }},
    {"UploadThatKeepsTheOldVersion", [](Repository& r) { return UploadTo(r, "ocr", Content(4)); }, 2},
    {"MoveAliasOfAKeptVersion", [](Repository& r) { return r.SetAlias("ocr", "stable", 2).status(); }, 2},
    {"FirstUpload", [](Repository& r) { return UploadTo(r, "new", Content(4)); }},
    {"UploadOfOldBytes", [](Repository& r) { return UploadTo(r, "ocr", Content(1)); }},
    {"Load", [](Repository& r) { return r.LoadCheckpoint("file").status(); }},
    {"MoveAlias", [](Repository& r) { return r.SetAlias("ocr", "stable", 2).status(); }},
    {"AliasOfAnOperatorFile", [](Repository& r) { return r.SetAlias("old", "stable", 1).status(); }},
    {"RemoveAlias", [](Repository& r) { return r.SetAlias("ocr", "stable", 0).status(); }},
    {"Unload", [](Repository& r) { return r.Unload("ocr").status(); }},
    {"DeleteVersion", [](Repository& r) { return r.Delete("ocr", 2).status(); }},
    {"DeleteAll", [](Repository& r) { return r.Delete("ocr", 0).status(); }},
    {"DeleteOperatorFile", [](Repository& r) { return r.Delete("old", 0).status(); }},
};

class RepositoryCrashTest : public RepositoryFixture, public ::testing::WithParamInterface<Change> {
 protected:
  // Creates the folder "start": "ocr" has the versions 1 (stable) and 2, "old" is an operator's file that is served.
  void SetUp() override {
    options_.before_disk_step = [this](absl::string_view step) { return BeforeStep(step); };
    options_.keep_versions = GetParam().keep_versions;
    Write("old.safetensors", Content(5));
    Start();
    ASSERT_THAT(UploadFile("ocr", Content(1)), IsOk());
    ASSERT_THAT(repository_->SetAlias("ocr", "stable", 1), IsOk());
    ASSERT_THAT(UploadFile("ocr", Content(2)), IsOk());
    before_ = Served();
    fs::copy(Path("weights"), Path("start"), fs::copy_options::recursive);
    ASSERT_THAT(RunFrom("start"), IsOk());
    after_ = Served();
    ASSERT_GE(steps_.size(), 4u);
  }

  // Runs the change on a copy of `folder`.
  absl::Status RunFrom(const std::string& folder) {
    repository_.reset();
    fs::remove_all(Path("weights"));
    fs::copy(Path(folder), Path("weights"), fs::copy_options::recursive);
    Start();
    EXPECT_EQ(Served(), before_);
    Write("file.safetensors", Content(6));
    steps_.clear();
    recording_ = true;
    absl::Status status = GetParam().run(*repository_);
    recording_ = false;
    return status;
  }

  absl::Status BeforeStep(absl::string_view step) {
    if (!recording_) return absl::OkStatus();
    steps_.emplace_back(step);
    const bool fails = steps_.size() == fails_at_ || (is_killed_ && steps_.size() > fails_at_);
    return fails ? absl::ResourceExhaustedError("injected") : absl::OkStatus();
  }

  // Starts a server and returns what it serves, without the operator's file of the Load change if that is not the
  // change. Expects that nothing is broken and that no unnamed blob or temporary file is left.
  State Restart() {
    repository_.reset();
    EXPECT_THAT(Start().broken, IsEmpty());
    std::set<std::string> blobs;
    for (const std::string& file : Files()) {
      if (absl::StartsWith(file, ".attention/blobs/")) blobs.insert(file);
    }
    EXPECT_LE(blobs.size(), registry_->List("ocr").size() + registry_->List("new").size() +
                                (registry_->Find("old", 0, "stable").ok() ? 1 : 0) + (is_unloaded() ? 2 : 0));
    for (const std::string& file : Files()) {
      EXPECT_THAT(file, AnyOf("file.safetensors", "old.safetensors", ".attention/manifest.json",
                              ::testing::StartsWith(".attention/blobs/")));
    }
    State state = Served();
    if (GetParam().name != "Load") std::erase(state, "file@1");
    return state;
  }

  static bool is_unloaded() { return GetParam().name == "Unload"; }

  bool recording_ = false;
  bool is_killed_ = false;
  size_t fails_at_ = 0;
  std::vector<std::string> steps_;  // of the last run
  State before_, after_;
};

TEST_P(RepositoryCrashTest, LeavesTheStateBeforeOrAfterTheChange) {
  const std::vector<std::string> steps = steps_;
  is_killed_ = true;
  bool changed = false;
  for (size_t step = 1; step <= steps.size(); ++step) {
    SCOPED_TRACE("killed before step " + std::to_string(step) + ", " + steps[step - 1]);
    fails_at_ = step;
    const absl::Status status = RunFrom("start");
    const State actual = Restart();
    EXPECT_THAT(actual, AnyOf(before_, after_));
    if (status.ok() || changed) {
      EXPECT_EQ(actual, after_) << "an acknowledged change was lost";
    }
    changed = changed || (actual == after_ && before_ != after_);
    EXPECT_EQ(Restart(), actual) << "after a second restart";
  }
  is_killed_ = false;
  fails_at_ = 0;
  ASSERT_THAT(RunFrom("start"), IsOk());
  EXPECT_EQ(Restart(), after_);
}

TEST_P(RepositoryCrashTest, AgreesWithTheDiskAfterAFailedOperation) {
  const std::vector<std::string> steps = steps_;
  for (size_t step = 1; step <= steps.size(); ++step) {
    SCOPED_TRACE("failed at step " + std::to_string(step) + ", " + steps[step - 1]);
    fails_at_ = step;
    const absl::Status status = RunFrom("start");
    const State served = Served();
    EXPECT_THAT(served, AnyOf(before_, after_));
    if (status.ok()) {
      EXPECT_EQ(served, after_);
    }
    // If syncing the folder fails, the manifest was already replaced, although the change was not acknowledged.
    const State actual = Restart();
    if (steps[step - 1] != "sync folder .attention") {
      EXPECT_EQ(actual, GetParam().name == "Load" ? after_ : served) << "the start loads the operator's file";
    }
    EXPECT_THAT(actual, AnyOf(before_, after_));
  }
}

INSTANTIATE_TEST_SUITE_P(All, RepositoryCrashTest, ::testing::ValuesIn(kChanges),
                         [](const auto& change) { return change.param.name; });

class RepositoryLeftoversTest : public RepositoryFixture {};

TEST_F(RepositoryLeftoversTest, AreRemovedAtTheStart) {
  Start();
  ASSERT_THAT(UploadFile("ocr", Content(1)), IsOk());
  repository_.reset();
  Write(".attention/manifest.json.tmp", "{\"checkpoints\": {\"oc");
  Write(".attention/uploads/upload-abc123", "half a file");
  Write(Blob(Content(2)), Content(2));
  EXPECT_THAT(Start().broken, IsEmpty());
  EXPECT_THAT(Served(), ElementsAre("ocr@1"));
  EXPECT_THAT(Files(), ElementsAre(Blob(Content(1)), ".attention/manifest.json"));
}

TEST_F(RepositoryLeftoversTest, OfADeletedFileAreRemovedButANewFileIsKept) {
  Write("ocr.safetensors", Content(1));
  bool fails = false;
  options_.before_disk_step = [&](absl::string_view step) {
    const bool failed = fails && step == "remove ocr.safetensors";
    return failed ? absl::FailedPreconditionError("injected") : absl::OkStatus();
  };
  Start();
  fails = true;
  const absl::StatusOr<Deleted> deleted = repository_->Delete("ocr", 0);
  ASSERT_THAT(deleted, IsOk()) << "the checkpoint is deleted, even if its file remains";
  EXPECT_THAT(deleted->versions, ElementsAre(1));
  EXPECT_THAT(deleted->removed_files, IsEmpty());
  EXPECT_THAT(deleted->remaining_files, ElementsAre("ocr.safetensors"));
  EXPECT_THAT(Served(), IsEmpty());
  EXPECT_THAT(repository_->LoadCheckpoint("ocr"), StatusIs(absl::StatusCode::kNotFound, _));
  Start();
  EXPECT_THAT(Served(), IsEmpty()) << "the file still cannot be removed";
  fails = false;
  Start();
  EXPECT_THAT(Served(), IsEmpty());
  EXPECT_THAT(Files(), ElementsAre(".attention/manifest.json"));

  Write("ocr.safetensors", Content(2));
  ASSERT_THAT(repository_->LoadCheckpoint("ocr"), IsOk());
  fails = true;
  EXPECT_THAT(repository_->Delete("ocr", 0)->remaining_files, ElementsAre("ocr.safetensors"));
  Write("ocr.safetensors", Content(3));
  fails = false;
  Start();
  EXPECT_THAT(Served(), ElementsAre("ocr@3"));
}

TEST_F(RepositoryLeftoversTest, AreRemovedWhenTheDiskIsFull) {
  bool is_full = false;
  options_.before_disk_step = [&](absl::string_view step) {
    const bool fails = is_full && step == "create manifest.json.tmp";
    return fails ? absl::ResourceExhaustedError("full") : absl::OkStatus();
  };
  Start();
  ASSERT_THAT(UploadFile("ocr", Content(1)), IsOk());
  is_full = true;
  EXPECT_THAT(UploadFile("ocr", Content(2)), StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("full")));
  EXPECT_THAT(Files(), ElementsAre(Blob(Content(1)), ".attention/manifest.json"));
  EXPECT_THAT(Served(), ElementsAre("ocr@1"));
  is_full = false;
  EXPECT_EQ(UploadFile("ocr", Content(2))->version, 2);
}

}  // namespace
}  // namespace attention::server
