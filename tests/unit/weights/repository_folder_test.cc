// Folders that are missing, cannot be written or are damaged, and files that are removed.

#include <sys/fsuid.h>
#include <sys/stat.h>
#include <unistd.h>

#include "absl/cleanup/cleanup.h"
#include "tests/unit/weights/repository_fixture.h"

namespace attention::server {
namespace {

using ::attention::test::IsOk;
using ::attention::test::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

namespace fs = std::filesystem;

// A user and a group that own nothing here.
constexpr uid_t kNobody = 65534;
constexpr gid_t kNoGroup = 65534;

class RepositoryFolderTest : public RepositoryFixture {};

TEST_F(RepositoryFolderTest, IsEmptyWithoutAFolder) {
  Registry registry;
  Repository repository({}, &registry);
  const auto report = repository.LoadAll();
  ASSERT_THAT(report, IsOk());
  EXPECT_EQ(report->loaded, 0);
  EXPECT_THAT(report->broken, IsEmpty());
  EXPECT_THAT(repository.LoadCheckpoint("ocr"), StatusIs(absl::StatusCode::kNotFound, HasSubstr("ocr")));
  EXPECT_THAT(repository.BeginUpload({.checkpoint = "ocr", .bytes = 1}),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("--weights-dir")));
  repository.PollFolder();
}

TEST_F(RepositoryFolderTest, RejectsAMissingFolder) {
  Registry registry;
  Repository repository({.dir = Path("missing")}, &registry);
  EXPECT_THAT(repository.LoadAll(), StatusIs(absl::StatusCode::kNotFound, HasSubstr("missing: cannot be read")));
}

// The message is the same for all of them, so that callers cannot probe the file system.
TEST_F(RepositoryFolderTest, ReadsNothingOutsideOfTheFolder) {
  outer_.Write("secret.safetensors", File());
  outer_.Write("outside/secret.safetensors", File());
  outer_.Write("weights-too/secret.safetensors", File());
  fs::create_directories(Path("weights/folder.safetensors"));
  fs::create_symlink(Path("secret.safetensors"), Path("weights/link.safetensors"));
  fs::create_symlink("../secret.safetensors", Path("weights/relative.safetensors"));
  fs::create_symlink(Path("weights-too/secret.safetensors"), Path("weights/beside.safetensors"));
  fs::create_symlink("nowhere", Path("weights/dangling.safetensors"));
  fs::create_symlink("loop.safetensors", Path("weights/loop.safetensors"));
  fs::create_directory_symlink(Path("outside"), Path("weights/outside"));
  Write("sub/.hidden.safetensors", File());
  const Repository::StartReport report = Start();
  EXPECT_EQ(report.loaded, 0);
  EXPECT_THAT(report.broken, IsEmpty());
  for (const std::string name : {"missing", "folder", "link", "relative", "beside", "dangling", "loop",
                                 "outside/secret", "outside/missing", "sub/.hidden"}) {
    EXPECT_THAT(repository_->LoadCheckpoint(name),
                StatusIs(absl::StatusCode::kNotFound,
                         "checkpoint: the weights folder has no " + name + ".safetensors, .msgpack or .npz"));
    EXPECT_THAT(repository_->Delete(name, 0), StatusIs(absl::StatusCode::kNotFound, ::testing::_));
  }
  EXPECT_THAT(Served(), IsEmpty());
}

TEST_F(RepositoryFolderTest, FollowsLinksToTargetsInside) {
  Write("..data/v1.safetensors", File({""}, 1));
  Write("..data/v2.safetensors", File({""}, 2));
  fs::create_symlink("..data/v1.safetensors", Path("weights/ocr.safetensors"));
  Start();
  EXPECT_THAT(Served(), ElementsAre("ocr@1"));
  fs::remove(Path("weights/ocr.safetensors"));
  fs::create_symlink("..data/v2.safetensors", Path("weights/ocr.safetensors"));
  EXPECT_EQ(repository_->LoadCheckpoint("ocr")->sha256, DigestOf(File({""}, 2)));
}

TEST_F(RepositoryFolderTest, ServesFromAFolderThatItCannotWrite) {
  Write("ocr.safetensors", File());
  // A file at the path of the server's own folder.
  Write(".attention", "a file");
  EXPECT_THAT(Start().broken, IsEmpty());
  EXPECT_THAT(Served(), ElementsAre("ocr@1"));
  Write("ocr.safetensors", File({""}, 2));
  EXPECT_EQ(repository_->LoadCheckpoint("ocr")->version, 2);
  const auto refused = StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("weights folder: cannot be written"));
  EXPECT_THAT(UploadFile("b", File()), refused);
  EXPECT_THAT(repository_->SetAlias("ocr", "stable", 2), refused);
  EXPECT_THAT(repository_->Delete("ocr", 0), refused);
  EXPECT_THAT(repository_->Unload("ocr"), IsOk());
  EXPECT_THAT(Served(), IsEmpty());
  EXPECT_THAT(repository_->LoadCheckpoint("ocr"), IsOk());
  EXPECT_THAT(Served(), ElementsAre("ocr@2"));
}

TEST_F(RepositoryFolderTest, GivesItsFilesTheModeAndTheGroupOfTheFolder) {
  const mode_t umask_before = umask(077);
  const auto restore = absl::MakeCleanup([&] { umask(umask_before); });
  const std::string folder = Path("weights");
  ASSERT_EQ(chmod(folder.c_str(), 0750), 0);
  const gid_t group = geteuid() == 0 ? kNoGroup : getegid();
  ASSERT_EQ(chown(folder.c_str(), static_cast<uid_t>(-1), group), 0);
  Start();
  ASSERT_THAT(UploadFile("ocr", Content(1)), IsOk());
  struct Case {
    std::string name;
    mode_t mode;
  };
  for (const Case& c : std::vector<Case>{{".attention", 0750},
                                         {".attention/blobs", 0750},
                                         {".attention/manifest.json", 0640},
                                         {".attention/lock", 0640},
                                         {Blob(Content(1)), 0640}}) {
    struct stat info;
    ASSERT_EQ(stat((folder + "/" + c.name).c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 07777, c.mode) << c.name;
    EXPECT_EQ(info.st_gid, group) << c.name;
  }
}

TEST_F(RepositoryFolderTest, TellsMissingPermissionFromDamage) {
  Start();
  ASSERT_THAT(UploadFile("ocr", Content(1)), IsOk());
  repository_.reset();
  // Root may read every file, so the rest runs as another user; for others this changes nothing.
  ASSERT_EQ(chmod(outer_.path().c_str(), 0755), 0);
  const int user = setfsuid(kNobody), group = setfsgid(kNoGroup);
  const auto restore = absl::MakeCleanup([&] { setfsuid(user), setfsgid(group); });
  EXPECT_THAT(Start().broken, IsEmpty());
  EXPECT_THAT(Served(), ElementsAre("ocr@1"));
  const std::string blob = Path("weights/" + Blob(Content(1)));
  setfsuid(user);
  ASSERT_EQ(chmod(blob.c_str(), 0), 0);
  setfsuid(kNobody);
  const std::string message = "checkpoint ocr: version 1: its file cannot be opened: Permission denied";
  EXPECT_THAT(Start().broken, ElementsAre("ocr: " + message));
  EXPECT_THAT(repository_->LoadCheckpoint("ocr"), StatusIs(absl::StatusCode::kFailedPrecondition, message));
}

TEST_F(RepositoryFolderTest, DoesNotWriteWhileAnotherServerUsesTheFolder) {
  Start();
  ASSERT_THAT(UploadFile("ocr", File()), IsOk());
  Registry registry;
  Repository second({.dir = Path("weights")}, &registry);
  ASSERT_THAT(second.LoadAll(), IsOk());
  EXPECT_THAT(Describe(registry.List()), ElementsAre("ocr@1"));
  EXPECT_THAT(second.Delete("ocr", 0),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("another server uses it")));
  EXPECT_THAT(repository_->Delete("ocr", 0), IsOk());
}

TEST_F(RepositoryFolderTest, ChangesNothingIfTheManifestIsDamaged) {
  Write("ocr.safetensors", File());
  Start();
  ASSERT_THAT(UploadFile("sign", File({""}, 2)), IsOk());
  Write(".attention/manifest.json", "{");
  EXPECT_THAT(Start().broken, ElementsAre(HasSubstr(".attention: manifest: ")));
  EXPECT_THAT(Served(), ElementsAre("ocr@1"));
  EXPECT_THAT(UploadFile("new", File()),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("its manifest is damaged")));
  EXPECT_THAT(Files(), ElementsAre(Blob(File({""}, 2)), ".attention/manifest.json", "ocr.safetensors"));
}

// Versions whose operator's file is removed, returns or cannot be read.
class RepositoryFileLossTest : public RepositoryFixture {
 protected:
  void Remove(const std::string& name) const { std::filesystem::remove(Path("weights/" + name)); }
};

TEST_F(RepositoryFileLossTest, KeepsAnUploadWhoseContentAFileAlreadyHeld) {
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

TEST_F(RepositoryFileLossTest, LoadsAFileThatReturnsAfterAStartWithoutIt) {
  Write("ocr.safetensors", Content(1));
  Start();
  Write("ocr.safetensors", "damaged");
  EXPECT_THAT(Start().broken, ElementsAre(HasSubstr("ocr")));
  EXPECT_THAT(Served(), IsEmpty());
  Write("ocr.safetensors", Content(1));
  EXPECT_THAT(Start().broken, IsEmpty());
  EXPECT_THAT(Served(), ElementsAre("ocr@2"));
}

TEST_F(RepositoryFileLossTest, ServesVersionsWithABlobDespiteTwoFilesOfOneName) {
  Start();
  ASSERT_THAT(UploadFile("ocr", Content(1)), IsOk());
  ASSERT_THAT(repository_->SetAlias("ocr", "stable", 1), IsOk());
  Write("ocr.safetensors", Content(2));
  ASSERT_THAT(repository_->LoadCheckpoint("ocr"), IsOk());
  Write("ocr.npz", "another");
  EXPECT_THAT(Start().broken, ::testing::Contains(HasSubstr("expected one file")));
  EXPECT_THAT(Served(), ElementsAre("ocr@1 (stable)"));
  Remove("ocr.npz");
  EXPECT_THAT(Start().broken, IsEmpty());
  EXPECT_THAT(Served(), ElementsAre("ocr@2", "ocr@1 (stable)")) << "the version of the file was kept";
}

TEST_F(RepositoryFileLossTest, MakesAnotherVersionOfTheSameBytesWithOtherHeads) {
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
                       "num_heads: expected 0 or 1 as in the upload of version 3 of checkpoint ocr, got 2; upload the "
                       "file again to change it"));
}

}  // namespace
}  // namespace attention::server
