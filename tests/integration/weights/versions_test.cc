// Versions and aliases over a socket: which versions are served, how requests select them, how aliases move.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "tests/testing/server/raw_call.h"
#include "tests/testing/server/requests.h"
#include "tests/testing/server/running_server.h"
#include "tests/testing/server/uploads.h"
#include "tests/testing/server/wire.h"

namespace attention::test {
namespace {

using absl::StatusCode;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// A server with the checkpoint "w"; the answer of version v is SquareAnswer(v).
class VersionsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    server::Config config;
    config.keep_versions = 1;
    Start(config);
    Upload(1);
  }

  void Start(const server::Config& config) {
    auto running = RunningServer::Start({.config = config});
    ASSERT_THAT(running, IsOk());
    running_ = *std::move(running);
  }

  const Client& client() const { return running_->client(); }

  void Upload(int64_t version) const {
    const auto loaded = UploadBytes(client(), "w", SquareFile(version));
    ASSERT_THAT(loaded, IsOk());
    ASSERT_EQ(loaded->version, version);
  }

  absl::StatusOr<int64_t> Move(int64_t version, std::optional<int64_t> expected = {}) const {
    return client().SetAlias({.checkpoint = "w", .alias = "stable", .version = version, .expected_version = expected});
  }

  absl::StatusOr<AttendReply> Attend(int64_t version, const std::string& alias = "") const {
    v1::AttendRequest request = QuestionRequest("w");
    request.set_version(version);
    request.set_alias(alias);
    auto response = running_->AttendRaw(request);
    if (!response.ok()) return response.status();
    AttendReply reply;
    reply.output = ClientTensor(response->output());
    reply.version = response->version();
    return reply;
  }

  void ExpectServed(int64_t expected, int64_t version, const std::string& alias = "") const {
    const auto reply = Attend(version, alias);
    ASSERT_THAT(reply, IsOk());
    EXPECT_EQ(reply->version, expected);
    EXPECT_THAT(reply->output, Near(SquareAnswer(expected)));
  }

  std::vector<std::string> Listed() const {
    std::vector<std::string> lines;
    const auto sets = client().ListWeightSets();
    for (const WeightSetInfo& info : sets.value()) {
      lines.push_back(absl::StrCat(info.name, " ", info.version, info.aliases.empty() ? "" : " ",
                                   absl::StrJoin(info.aliases, ",")));
    }
    return lines;
  }

  std::unique_ptr<RunningServer> running_;
};

TEST_F(VersionsTest, ServesTheHighestVersionAndThoseWithAnAlias) {
  EXPECT_THAT(Move(1), IsOk());
  Upload(2);
  Upload(3);
  EXPECT_THAT(Listed(), ElementsAre("w 3", "w 1 stable"));
  ExpectServed(3, 0);
  ExpectServed(3, 3);
  ExpectServed(1, 1);
  ExpectServed(1, 0, "stable");
  EXPECT_THAT(Attend(2), StatusIs(StatusCode::kNotFound, HasSubstr("w")));
  EXPECT_THAT(Attend(4), StatusIs(StatusCode::kNotFound, HasSubstr("w")));
  EXPECT_THAT(Attend(0, "canary"), StatusIs(StatusCode::kNotFound, HasSubstr("canary")));
}

TEST_F(VersionsTest, DescribesTheRequestedVersion) {
  EXPECT_THAT(Move(1), IsOk());
  Upload(2);
  EXPECT_EQ(client().GetWeightSet("w")->version, 2);
  EXPECT_EQ(client().GetWeightSet("w", {.version = 1})->version, 1);
  const auto stable = client().GetWeightSet("w", {.alias = "stable"});
  ASSERT_THAT(stable, IsOk());
  EXPECT_EQ(stable->version, 1);
  EXPECT_THAT(stable->aliases, ElementsAre("stable"));
  EXPECT_THAT(client().GetWeightSet("w", {.version = 3}), StatusIs(StatusCode::kNotFound, HasSubstr("w")));
  EXPECT_THAT(client().GetWeightSet("w", {.alias = "canary"}), StatusIs(StatusCode::kNotFound, HasSubstr("canary")));
}

TEST_F(VersionsTest, RejectsAVersionTogetherWithAnAlias) {
  EXPECT_THAT(Move(1), IsOk());
  EXPECT_THAT(Attend(1, "stable"), StatusIs(StatusCode::kInvalidArgument, HasSubstr("alias")));
  EXPECT_THAT(client().GetWeightSet("w", {.version = 1, .alias = "stable"}),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("alias")));
}

TEST_F(VersionsTest, MovesAnAliasByCompareAndSwap) {
  EXPECT_THAT(Move(1, 1), StatusIs(StatusCode::kAborted, HasSubstr("stable")));
  EXPECT_EQ(Move(1, 0).value(), 0);
  EXPECT_THAT(Move(1, 0), StatusIs(StatusCode::kAborted, HasSubstr("1")));
  Upload(2);
  EXPECT_THAT(Move(2, 2), StatusIs(StatusCode::kAborted, HasSubstr("1")));
  EXPECT_EQ(client().GetWeightSet("w", {.alias = "stable"})->version, 1);
  EXPECT_EQ(Move(2, 1).value(), 1);
  EXPECT_EQ(Move(2).value(), 2);
  EXPECT_THAT(Listed(), ElementsAre("w 2 stable"));
  EXPECT_THAT(Move(0, 1), StatusIs(StatusCode::kAborted, HasSubstr("2")));
  EXPECT_EQ(Move(0, 2).value(), 2);
  EXPECT_THAT(Attend(0, "stable"), StatusIs(StatusCode::kNotFound, HasSubstr("stable")));
}

TEST_F(VersionsTest, LetsAliasesNameOnlyExistingVersions) {
  EXPECT_THAT(Move(2), StatusIs(StatusCode::kNotFound, HasSubstr("2")));
  EXPECT_THAT(client().SetAlias({.checkpoint = "nobody", .alias = "stable", .version = 1}),
              StatusIs(StatusCode::kNotFound, HasSubstr("nobody")));
  EXPECT_THAT(Move(-1), StatusIs(StatusCode::kInvalidArgument, HasSubstr("version")));
  EXPECT_THAT(Move(1, -1), StatusIs(StatusCode::kInvalidArgument, HasSubstr("expected_version")));
}

TEST_F(VersionsTest, DeletesOneVersionOrAll) {
  EXPECT_THAT(Move(1), IsOk());
  Upload(2);
  EXPECT_THAT(client().Delete("w", 1), StatusIs(StatusCode::kFailedPrecondition, HasSubstr("stable")));
  EXPECT_THAT(client().Delete("w", 3), StatusIs(StatusCode::kNotFound, HasSubstr("3")));
  EXPECT_THAT(client().Delete("w", -1), StatusIs(StatusCode::kInvalidArgument, HasSubstr("version")));
  EXPECT_THAT(client().Delete("w", 2)->versions, ElementsAre(2));
  ExpectServed(1, 0);
  EXPECT_THAT(UploadBytes(client(), "w", SquareFile(3))->version, 3) << "numbers are never reused";
  EXPECT_THAT(client().Delete("w")->versions, ElementsAre(1, 3));
  EXPECT_THAT(Listed(), IsEmpty());
  EXPECT_THAT(Attend(0), StatusIs(StatusCode::kNotFound, HasSubstr("w")));
  EXPECT_THAT(client().Delete("w"), StatusIs(StatusCode::kNotFound, HasSubstr("w")));
  EXPECT_THAT(client().LoadCheckpoint("w"), StatusIs(StatusCode::kNotFound, HasSubstr("w")));
  EXPECT_THAT(UploadBytes(client(), "w", SquareFile(4))->version, 4) << "not even after all versions were deleted";
}

TEST_F(VersionsTest, ServesUnloadedVersionsAgainAfterALoad) {
  EXPECT_THAT(Move(1), IsOk());
  Upload(2);
  EXPECT_EQ(client().Unload("w").value(), 2);
  EXPECT_THAT(Listed(), IsEmpty());
  EXPECT_THAT(client().Unload("w"), StatusIs(StatusCode::kNotFound, HasSubstr("w")));
  const auto loaded = client().LoadCheckpoint("w");
  ASSERT_THAT(loaded, IsOk());
  EXPECT_EQ(loaded->version, 2);
  EXPECT_THAT(Listed(), ElementsAre("w 2", "w 1 stable"));
  ExpectServed(2, 0);
  ExpectServed(1, 0, "stable");
}

TEST_F(VersionsTest, KeepsTheReplacedVersionByDefault) {
  ASSERT_NO_FATAL_FAILURE(Start({}));
  for (const int64_t version : {1, 2, 3}) Upload(version);
  EXPECT_THAT(Listed(), ElementsAre("w 3", "w 2"));
  ExpectServed(2, 2);
  EXPECT_THAT(UploadBytes(client(), "w", SquareFile(4))->dropped_versions, ElementsAre(2));
}

TEST_F(VersionsTest, RefusesAFileWithOtherLayersUnlessAsked) {
  const TemporaryFolder folder;
  folder.Write("file", Serialize(ToParameters(SquareLayer(2), "layer0/")));
  CheckpointUpload upload{.file = (folder.path() / "file").string(), .checkpoint = "w"};
  EXPECT_THAT(client().UploadCheckpoint(upload),
              StatusIs(StatusCode::kFailedPrecondition,
                       "replace: expected true to replace version 1, because the new one lacks the weight sets w, got "
                       "false"));
  ExpectServed(1, 0);
  upload.options.replace = true;
  const auto replaced = client().UploadCheckpoint(upload);
  ASSERT_THAT(replaced, IsOk());
  EXPECT_EQ(replaced->version, 2);
  EXPECT_THAT(replaced->dropped_versions, ElementsAre(1));
  EXPECT_THAT(replaced->removed_weight_sets, ElementsAre("w"));
  running_->weights_folder().Write("w.safetensors", SquareFile(3));
  EXPECT_EQ(client().LoadCheckpoint("w").status().code(), StatusCode::kFailedPrecondition);
  const auto loaded = client().LoadCheckpoint("w", {.replace = true});
  ASSERT_THAT(loaded, IsOk());
  EXPECT_THAT(loaded->removed_weight_sets, ElementsAre("w/layer0"));
  const auto deleted = client().Delete("w");
  ASSERT_THAT(deleted, IsOk());
  EXPECT_THAT(deleted->removed_files, ElementsAre("w.safetensors"));
  EXPECT_THAT(deleted->remaining_files, IsEmpty());
}

class PagesTest : public VersionsTest {
 protected:
  // "w 2", "w 1", then one weight set for each of three more checkpoints.
  void SetUp() override {
    ASSERT_NO_FATAL_FAILURE(VersionsTest::SetUp());
    EXPECT_THAT(Move(1), IsOk());
    Upload(2);
    for (const char* name : {"w/a", "w/b", "x"}) ASSERT_THAT(UploadBytes(client(), name, SquareFile(1)), IsOk());
  }

  absl::StatusOr<v1::ListWeightSetsResponse> List(const v1::ListWeightSetsRequest& request) const {
    grpc::ClientContext context;
    v1::ListWeightSetsResponse response;
    const grpc::Status status = running_->raw().weights->ListWeightSets(&context, request, &response);
    if (!status.ok()) return ToAbsl(status);
    return response;
  }

  // Name and version of the weight sets on all pages; `after_page` runs after each page.
  std::vector<std::string> All(
      v1::ListWeightSetsRequest request, const std::function<void()>& after_page = [] {}) {
    std::vector<std::string> lines;
    do {
      const auto page = List(request).value();
      EXPECT_LE(page.weight_sets_size(), request.page_size());
      for (const v1::WeightSetInfo& info : page.weight_sets()) {
        lines.push_back(absl::StrCat(info.name(), " ", info.version()));
      }
      request.set_page_token(page.next_page_token());
      after_page();
    } while (!request.page_token().empty());
    return lines;
  }
};

TEST_F(PagesTest, ListEveryWeightSetOnce) {
  for (const int size : {1, 2, 3, 4, 5, 6}) {
    v1::ListWeightSetsRequest request;
    request.set_page_size(size);
    EXPECT_THAT(All(request), ElementsAre("w 2", "w 1", "w/a 1", "w/b 1", "x 1")) << size;
    request.set_prefix("w/");
    EXPECT_THAT(All(request), ElementsAre("w/a 1", "w/b 1")) << size;
  }
  v1::ListWeightSetsRequest request;
  request.set_page_size(5);
  EXPECT_EQ(List(request)->next_page_token(), "") << "the last page has no token even if it is full";
}

TEST_F(PagesTest, ContinueAfterADeletedWeightSet) {
  v1::ListWeightSetsRequest request;
  request.set_page_size(3);
  EXPECT_THAT(All(request, [this] { static_cast<void>(client().Delete("w/a")); }),
              ElementsAre("w 2", "w 1", "w/a 1", "w/b 1", "x 1"));
}

TEST_F(PagesTest, RejectAForeignToken) {
  v1::ListWeightSetsRequest request;
  request.set_page_size(-1);
  EXPECT_THAT(List(request), StatusIs(StatusCode::kInvalidArgument, HasSubstr("page_size")));
  request.set_page_size(1);
  request.set_page_token("nonsense");
  EXPECT_THAT(List(request), StatusIs(StatusCode::kInvalidArgument, AllOf(HasSubstr("page_token"))));
  request.clear_page_token();
  request.set_page_token(List(request)->next_page_token());
  request.set_prefix("x");
  EXPECT_THAT(List(request), StatusIs(StatusCode::kInvalidArgument, HasSubstr("prefix")));
}

}  // namespace
}  // namespace attention::test
