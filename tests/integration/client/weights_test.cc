#include <gmock/gmock.h>

#include "tests/integration/client/fake_attention_server.h"
#include "tests/testing/files/temporary_folder.h"
#include "tests/testing/matchers.h"

namespace attention::test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr size_t kChunkBytes = 1 << 20;

class ClientWeightsTest : public FakeServerTest {
 protected:
  ClientWeightsTest() {
    server_.weights.info.set_name("ocr/layer0");
    server_.weights.info.set_version(9);
    // Receives the whole file.
    server_.weights.on_upload = [this](UploadReader& reader, v1::LoadCheckpointResponse& response) {
      v1::UploadCheckpointRequest part;
      if (reader.Read(&part)) header_ = part.header();
      while (reader.Read(&part)) chunks_.push_back(part.chunk());
      response.set_checkpoint(header_.checkpoint());
      response.set_version(4);
      return grpc::Status::OK;
    };
  }

  CheckpointUpload Upload(const std::string& content) const {
    folder_.Write("file", content);
    return {.file = (folder_.path() / "file").string(), .checkpoint = "ocr"};
  }

  TemporaryFolder folder_;
  v1::UploadHeader header_;
  std::vector<std::string> chunks_;
};

TEST_F(ClientWeightsTest, SendsNameVersionAndAlias) {
  const Client client = server_.Connect();
  EXPECT_EQ(client.GetWeightSet("ocr/layer0", {.version = 3})->version, 9);
  EXPECT_EQ(server_.weights.last_name, "ocr/layer0");
  EXPECT_EQ(server_.weights.last_version, 3);
  EXPECT_THAT(client.GetWeightSet("ocr/layer0", {.alias = "stable"}), IsOk());
  EXPECT_EQ(server_.weights.last_alias, "stable");
  EXPECT_EQ(client.Unload("old").value(), 9);
  EXPECT_EQ(server_.weights.last_name, "old");
  const auto deleted = client.Delete("ocr", 9);
  ASSERT_THAT(deleted, IsOk());
  EXPECT_THAT(deleted->versions, ElementsAre(9, 10));
  EXPECT_THAT(deleted->removed_files, ElementsAre("ocr.npz"));
  EXPECT_THAT(deleted->remaining_files, ElementsAre("ocr.msgpack"));
  EXPECT_EQ(server_.weights.last_version, 9);
}

TEST_F(ClientWeightsTest, LoadsWithNumHeads) {
  const auto loaded = server_.Connect().LoadCheckpoint("ocr", {.num_heads = 12});
  ASSERT_THAT(loaded, IsOk());
  EXPECT_EQ(server_.weights.num_heads, 12);
  EXPECT_FALSE(server_.weights.replace);
  EXPECT_THAT(loaded->dropped_versions, ElementsAre(7));
  EXPECT_THAT(loaded->removed_weight_sets, ElementsAre("ocr/layer1"));
  EXPECT_EQ(loaded->checkpoint, "ocr");
  EXPECT_EQ(loaded->weight_sets.at(0).name, "ocr/layer0");
  EXPECT_THAT(loaded->unused_tensors, ElementsAre("step"));
}

TEST_F(ClientWeightsTest, SendsAnExpectedVersionOfZero) {
  const Client client = server_.Connect();
  EXPECT_EQ(client.SetAlias({.checkpoint = "ocr", .alias = "stable", .version = 2}).value(), 9);
  EXPECT_EQ(server_.weights.set_alias.checkpoint(), "ocr");
  EXPECT_EQ(server_.weights.set_alias.alias(), "stable");
  EXPECT_EQ(server_.weights.set_alias.version(), 2);
  EXPECT_FALSE(server_.weights.set_alias.has_expected_version());
  EXPECT_THAT(client.SetAlias({.checkpoint = "ocr", .alias = "stable", .version = 2, .expected_version = 0}), IsOk());
  EXPECT_TRUE(server_.weights.set_alias.has_expected_version());
  EXPECT_EQ(server_.weights.set_alias.expected_version(), 0);
}

TEST_F(ClientWeightsTest, ListsAllPages) {
  std::vector<std::string> tokens;
  server_.weights.on_list = [&](const v1::ListWeightSetsRequest& request, v1::ListWeightSetsResponse& response) {
    tokens.push_back(request.page_token());
    if (tokens.size() < 3) response.set_next_page_token(absl::StrCat("page ", tokens.size()));
  };
  const auto sets = server_.Connect().ListWeightSets("ocr/");
  ASSERT_THAT(sets, IsOk());
  EXPECT_EQ(sets->size(), 3u);
  EXPECT_EQ(sets->front().name, "ocr/layer0");
  EXPECT_THAT(tokens, ElementsAre("", "page 1", "page 2"));
  EXPECT_EQ(server_.weights.last_name, "ocr/");
}

TEST_F(ClientWeightsTest, UploadsAFileInChunksAfterItsDigest) {
  std::string content(2 * kChunkBytes + 3, 'a');
  content.back() = 'b';
  CheckpointUpload upload = Upload(content);
  upload.options.num_heads = 8;
  std::vector<std::pair<int64_t, int64_t>> steps;
  upload.progress = [&](int64_t sent, int64_t total) { steps.emplace_back(sent, total); };
  const auto loaded = server_.Connect().UploadCheckpoint(upload);
  ASSERT_THAT(loaded, IsOk());
  EXPECT_EQ(loaded->checkpoint, "ocr");
  EXPECT_EQ(loaded->version, 4);
  EXPECT_EQ(header_.bytes(), static_cast<int64_t>(content.size()));
  // Python: hashlib.sha256(b"a" * 2097154 + b"b").hexdigest()
  EXPECT_EQ(header_.sha256(), "51293d83ad22f08502c9cb577539311c7d46abea91f3953c2118e49897252ffb");
  EXPECT_EQ(header_.num_heads(), 8);
  ASSERT_EQ(chunks_.size(), 3u);
  EXPECT_EQ(chunks_[0] + chunks_[1] + chunks_[2], content);
  const int64_t total = content.size(), chunk = kChunkBytes;
  EXPECT_THAT(steps, ElementsAre(std::pair(int64_t{0}, total), std::pair(chunk, total), std::pair(2 * chunk, total),
                                 std::pair(total, total)));
}

TEST_F(ClientWeightsTest, UploadsAnEmptyFile) {
  ASSERT_THAT(server_.Connect().UploadCheckpoint(Upload("")), IsOk());
  EXPECT_EQ(header_.sha256(), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_TRUE(chunks_.empty());
}

TEST_F(ClientWeightsTest, SendsNoMessageAboveItsLimit) {
  ASSERT_THAT(server_.Connect({.max_message_bytes = 1000}).UploadCheckpoint(Upload(std::string(2500, 'a'))), IsOk());
  EXPECT_EQ(chunks_.size(), 3u);
}

// Not the failed write that gRPC reports.
TEST_F(ClientWeightsTest, ReturnsTheServersErrorAndStopsSending) {
  server_.weights.on_upload = [](UploadReader& reader, auto&) {
    v1::UploadCheckpointRequest part;
    for (int i = 0; i < 2; ++i) reader.Read(&part);
    return grpc::Status(grpc::StatusCode::INVALID_ARGUMENT, "header length is wrong");
  };
  CheckpointUpload upload = Upload(std::string(64 * kChunkBytes, 'a'));
  int64_t sent = 0;
  upload.progress = [&](int64_t now, int64_t) { sent = now; };
  EXPECT_THAT(server_.Connect().UploadCheckpoint(upload),
              StatusIs(absl::StatusCode::kInvalidArgument, "header length is wrong"));
  EXPECT_LT(sent, static_cast<int64_t>(16 * kChunkBytes));
}

TEST_F(ClientWeightsTest, AcceptsAnEarlyReply) {
  server_.weights.on_upload = [](UploadReader&, v1::LoadCheckpointResponse& response) {
    response.set_unchanged(true);
    return grpc::Status::OK;
  };
  const auto loaded = server_.Connect().UploadCheckpoint(Upload(std::string(32 * kChunkBytes, 'a')));
  ASSERT_THAT(loaded, IsOk());
  EXPECT_TRUE(loaded->unchanged);
}

TEST_F(ClientWeightsTest, EndsAnUploadAtItsDeadline) {
  // Shared, because the handler may begin after the deadline.
  const auto ended = std::make_shared<absl::Notification>();
  server_.weights.on_upload = [ended](auto&, auto&) {
    ended->WaitForNotification();
    return grpc::Status::OK;
  };
  EXPECT_EQ(
      server_.Connect()
          .UploadCheckpoint(Upload(std::string(64 * kChunkBytes, 'a')), {.timeout = std::chrono::milliseconds(200)})
          .status()
          .code(),
      absl::StatusCode::kDeadlineExceeded);
  ended->Notify();
}

TEST_F(ClientWeightsTest, ReturnsWhyAFileCannotBeRead) {
  const Client client = server_.Connect();
  const std::string folder = folder_.path().string();
  EXPECT_THAT(client.UploadCheckpoint({.file = folder + "/none", .checkpoint = "ocr"}),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr(folder + "/none")));
  EXPECT_THAT(client.UploadCheckpoint({.file = folder, .checkpoint = "ocr"}),
              StatusIs(absl::StatusCode::kInvalidArgument, folder + ": not a regular file"));
}

TEST_F(ClientWeightsTest, FailsToUploadWithoutAServer) {
  const auto client = Client::Connect("unix:/nonexistent/attention.sock");
  EXPECT_EQ(client->UploadCheckpoint(Upload("a")).status().code(), absl::StatusCode::kUnavailable);
}

}  // namespace
}  // namespace attention::test
