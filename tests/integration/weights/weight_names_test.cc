// Which names every call accepts, and what error messages reveal.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "absl/strings/str_replace.h"
#include "tests/testing/server/requests.h"
#include "tests/testing/server/running_server.h"
#include "tests/testing/server/uploads.h"
#include "tests/testing/server/wire.h"

namespace attention::test {
namespace {

namespace fs = std::filesystem;

using absl::StatusCode;
using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::Not;

class WeightNamesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto running = RunningServer::Start({.checkpoints = {{"ones", ToParameters(OnesLayer())}}});
    ASSERT_THAT(running, IsOk());
    running_ = *std::move(running);
  }

  const Client& client() const { return running_->client(); }
  const fs::path& folder() const { return running_->weights_folder().path(); }

  // The status of each call with that name of a checkpoint or weight set.
  std::vector<absl::Status> CallAll(const std::string& name) const {
    std::vector<absl::Status> statuses = {
        client().LoadCheckpoint(name).status(),
        client().GetWeightSet(name).status(),
        client().Unload(name).status(),
        client().Delete(name).status(),
        client().SetAlias({.checkpoint = name, .alias = "stable", .version = 1}).status(),
        UploadBytes(client(), name, SquareFile(2)).status(),
    };
    // An empty name is valid for Attend: attention without projections.
    if (!name.empty()) statuses.push_back(client().Attend(ClientRequest(QuestionRequest(name))).status());
    return statuses;
  }

  std::unique_ptr<RunningServer> running_;
};

TEST_F(WeightNamesTest, AreRejectedIfTheyCouldBePaths) {
  const std::string names[] = {"../../secret",
                               "/etc/hostname",
                               "a/../../b",
                               "..",
                               "",
                               std::string("a\0b", 3),
                               "a\nb",
                               std::string(1 << 20, 'a'),
                               "Ones",
                               ".attention/manifest",
                               "ones/",
                               (folder() / "ones").string()};
  for (const std::string& name : names) {
    for (const absl::Status& status : CallAll(name)) {
      EXPECT_THAT(status, StatusIs(StatusCode::kInvalidArgument, HasSubstr("[a-z0-9]"))) << name.substr(0, 30);
      EXPECT_LE(status.message().size(), 400u);
      EXPECT_THAT(std::string(status.message()), Not(AnyOf(HasSubstr("\n"), HasSubstr(std::string(1, '\0')))));
    }
  }
  EXPECT_THAT(client().Attend(ClientRequest(QuestionRequest("ones")))->output, Near(QuestionAnswer()));
}

TEST_F(WeightNamesTest, OfAliasesAreRejectedToo) {
  for (const std::string& alias : {std::string(), std::string("a/b"), std::string("Stable"), std::string("a\nb"),
                                   std::string(".."), std::string(65, 'a'), std::string(1 << 20, 'a')}) {
    const absl::Status set = client().SetAlias({.checkpoint = "ones", .alias = alias, .version = 1}).status();
    EXPECT_THAT(set, StatusIs(StatusCode::kInvalidArgument, HasSubstr("[a-z0-9]"))) << alias.substr(0, 30);
    EXPECT_LE(set.message().size(), 400u);
    if (alias.empty()) continue;
    EXPECT_THAT(client().GetWeightSet("ones", {.alias = alias}),
                StatusIs(StatusCode::kInvalidArgument, HasSubstr("[a-z0-9]")));
    v1::AttendRequest request = QuestionRequest("ones");
    request.set_alias(alias);
    EXPECT_THAT(running_->AttendRaw(request), StatusIs(StatusCode::kInvalidArgument, HasSubstr("[a-z0-9]")));
  }
}

// Different messages for missing files and files outside of the folder would let callers probe the file system.
TEST_F(WeightNamesTest, GiveTheSameErrorForMissingFilesAndFilesOutside) {
  const TemporaryFolder outside;
  outside.Write("secret.safetensors", SquareFile(2));
  fs::create_symlink(outside.path() / "secret.safetensors", folder() / "link.safetensors");
  fs::create_directory_symlink(outside.path(), folder() / "folder");
  fs::create_directory(folder() / "entry.safetensors");
  const std::string missing(client().LoadCheckpoint("missing").status().message());
  for (const std::string name : {"link", "folder/secret", "entry"}) {
    const absl::Status status = client().LoadCheckpoint(name).status();
    EXPECT_EQ(status.code(), StatusCode::kNotFound) << name;
    EXPECT_EQ(absl::StrReplaceAll(status.message(), {{name, "missing"}}), missing);
  }
}

TEST_F(WeightNamesTest, DoNotRevealPathsInErrors) {
  running_->weights_folder().Write("broken.safetensors", "12345678");
  for (const char* name : {"broken", "missing", "missing/deep"}) {
    for (const absl::Status& status : CallAll(name)) {
      if (status.ok()) continue;
      EXPECT_THAT(std::string(status.message()),
                  AllOf(HasSubstr(name), Not(HasSubstr(folder().string())), Not(HasSubstr(".attention")),
                        Not(HasSubstr(".cc")), Not(HasSubstr("ones"))));
    }
  }
}

}  // namespace
}  // namespace attention::test
