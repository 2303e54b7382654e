// UploadCheckpoint over a socket: complete, partial and invalid files.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <limits>

#include "absl/time/clock.h"
#include "server/checkpoint/sha256.h"
#include "tests/testing/server/raw_call.h"
#include "tests/testing/server/requests.h"
#include "tests/testing/server/running_server.h"
#include "tests/testing/server/uploads.h"
#include "tests/testing/server/wire.h"

namespace attention::test {
namespace {

namespace fs = std::filesystem;

using absl::StatusCode;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr int64_t kMiB = 1 << 20;

std::string Digest(const std::string& bytes) {
  Sha256 digest;
  digest.Update(bytes);
  return digest.Finish();
}

class UploadTest : public ::testing::Test {
 protected:
  void SetUp() override { Start({}); }

  void Start(const server::Config& config) {
    auto running = RunningServer::Start({.config = config});
    ASSERT_THAT(running, IsOk());
    running_ = *std::move(running);
    // Must stay served during all uploads.
    ASSERT_THAT(UploadBytes(client(), "w", SquareFile(1)), IsOk());
  }

  const Client& client() const { return running_->client(); }

  void ExpectStillServed(int64_t version = 1) const {
    const auto reply = client().Attend(ClientRequest(QuestionRequest("w")));
    ASSERT_THAT(reply, IsOk());
    EXPECT_EQ(reply->version, version);
    EXPECT_THAT(reply->output, Near(SquareAnswer(version)));
  }

  int64_t UnfinishedUploads() const {
    const fs::directory_iterator files(running_->weights_folder().path() / ".attention" / "uploads");
    return std::distance(fs::begin(files), fs::end(files));
  }

  // The server handles cancellations and new calls asynchronously.
  void AwaitUnfinishedUploads(int64_t count) const {
    for (const absl::Time start = absl::Now(); UnfinishedUploads() != count;) {
      ASSERT_LT(absl::Now() - start, absl::Seconds(30)) << UnfinishedUploads();
      ASSERT_THAT(client().Unload("nobody"), StatusIs(StatusCode::kNotFound, HasSubstr("nobody")));
    }
  }

  std::unique_ptr<RunningServer> running_;
};

TEST_F(UploadTest, ServesAnUploadAsTheNextVersion) {
  const std::string file = SquareFile(2);
  const auto loaded = UploadBytes(client(), "w", file);
  ASSERT_THAT(loaded, IsOk());
  EXPECT_EQ(loaded->checkpoint, "w");
  EXPECT_EQ(loaded->version, 2);
  EXPECT_EQ(loaded->sha256, Digest(file));
  EXPECT_EQ(loaded->format, "safetensors");
  EXPECT_FALSE(loaded->unchanged);
  ASSERT_EQ(loaded->weight_sets.size(), 1u);
  EXPECT_EQ(loaded->weight_sets[0].name, "w");
  EXPECT_EQ(loaded->weight_sets[0].layout, "flax");
  ExpectStillServed(2);
  EXPECT_EQ(UnfinishedUploads(), 0);
}

TEST_F(UploadTest, GivesTheSameBitsAsAFileInTheFolder) {
  const Parameters parameters = ToParameters(RandomLayer({512, 512, 512, {8, 8, 64, 64}, 512}, 1));
  const std::string file = Serialize(parameters);
  ASSERT_GT(file.size(), 4u * kMiB) << "several chunks";
  ASSERT_THAT(UploadBytes(client(), "sent", file), IsOk());
  ASSERT_THAT(running_->Load("found", parameters), IsOk());
  v1::AttendRequest request;
  *request.mutable_inputs_q() = WireFloats({3, 512}, std::vector<float>(3 * 512, 0.5f));
  request.set_weight_set("sent");
  const auto sent = client().Attend(ClientRequest(request));
  ASSERT_THAT(sent, IsOk());
  request.set_weight_set("found");
  const auto found = client().Attend(ClientRequest(request));
  ASSERT_THAT(found, IsOk());
  EXPECT_THAT(sent->output, SameBits(found->output));
}

TEST_F(UploadTest, DoesNotReplaceTheSameBytes) {
  const auto again = UploadBytes(client(), "w", SquareFile(1));
  ASSERT_THAT(again, IsOk());
  EXPECT_TRUE(again->unchanged);
  EXPECT_EQ(again->version, 1);
  ExpectStillServed();
}

TEST_F(UploadTest, MakesOneVersionOfTheSameBytesUploadedTwiceAtOnce) {
  const auto upload = [this] { return UploadBytes(client(), "two", SquareFile(3)); };
  auto one = std::async(std::launch::async, upload);
  const auto other = upload(), first = one.get();
  ASSERT_THAT(first, IsOk());
  ASSERT_THAT(other, IsOk());
  EXPECT_EQ(first->version, 1);
  EXPECT_EQ(other->version, 1);
  EXPECT_NE(first->unchanged, other->unchanged);
}

// 64 MiB whose first 8 bytes announce a header of 2^63 bytes.
TEST_F(UploadTest, EndsAtABrokenHeaderWithTheErrorOfTheServer) {
  std::string file(64 * kMiB, '\0');
  file[7] = static_cast<char>(0x80);
  RawUpload upload(*running_->raw().weights);
  ASSERT_TRUE(upload.SendHeader("w", file.size()));
  constexpr size_t kChunk = 64 << 10;
  size_t sent = 0;
  while (sent < file.size() && upload.SendChunk(file.substr(sent, kChunk))) sent += kChunk;
  EXPECT_THAT(upload.Finish(), StatusIs(StatusCode::kInvalidArgument, HasSubstr("header length")));
  EXPECT_LT(sent, static_cast<size_t>(16 * kMiB));
  EXPECT_THAT(UploadBytes(client(), "w", file), StatusIs(StatusCode::kInvalidArgument, HasSubstr("header length")));
  ExpectStillServed();
}

TEST_F(UploadTest, RejectsABadShapeWhenTheHeaderIsComplete) {
  Parameters wrong = ToParameters(RandomLayer({16, 16, 16, {2, 2, 8, 8}, 16}, 1));
  wrong[0] = FloatParameter("query/kernel", {16, 4, 4}, std::vector<float>(256, 1));
  const std::string file = Serialize(wrong);
  RawUpload upload(*running_->raw().weights);
  ASSERT_TRUE(upload.SendHeader("w", file.size()));
  // Without the last byte and without a half-close, so only the server can end the call.
  ASSERT_TRUE(upload.SendChunk(file.substr(0, file.size() - 1)));
  while (upload.SendChunk("")) continue;
  EXPECT_THAT(upload.Finish(), StatusIs(StatusCode::kInvalidArgument, HasSubstr("kernel")));
  ExpectStillServed();
}

TEST_F(UploadTest, CountsTheBytes) {
  const std::string file = SquareFile(2), size = std::to_string(file.size());
  RawUpload early(*running_->raw().weights);
  early.SendHeader("w", file.size());
  early.SendChunk(file.substr(0, 300));
  EXPECT_THAT(early.Finish(), StatusIs(StatusCode::kInvalidArgument, AllOf(HasSubstr(size), HasSubstr("300"))));
  RawUpload longer(*running_->raw().weights);
  longer.SendHeader("w", file.size());
  longer.SendChunk(file + "!");
  EXPECT_THAT(longer.Finish(), StatusIs(StatusCode::kInvalidArgument, HasSubstr(size)));
  ExpectStillServed();
  EXPECT_EQ(UnfinishedUploads(), 0);
}

TEST_F(UploadTest, ChecksTheDigest) {
  const std::string file = SquareFile(2);
  const auto upload = [&](const std::string& digest) {
    RawUpload upload(*running_->raw().weights);
    upload.SendHeader("w", file.size(), digest);
    upload.SendChunk(file);
    return upload.Finish();
  };
  EXPECT_THAT(upload(Digest(SquareFile(3))), StatusIs(StatusCode::kInvalidArgument, HasSubstr("sha256")));
  EXPECT_THAT(upload("abc"), StatusIs(StatusCode::kInvalidArgument, HasSubstr("sha256")));
  ExpectStillServed();
  EXPECT_THAT(upload(Digest(file)), IsOk());
  ExpectStillServed(2);
}

TEST_F(UploadTest, RequiresOneHeaderInTheFirstMessage) {
  const std::string file = SquareFile(2);
  RawUpload nothing(*running_->raw().weights);
  EXPECT_THAT(nothing.Finish(), StatusIs(StatusCode::kInvalidArgument, HasSubstr("header")));
  RawUpload chunk(*running_->raw().weights);
  chunk.SendChunk(file);
  EXPECT_THAT(chunk.Finish(), StatusIs(StatusCode::kInvalidArgument, HasSubstr("header")));
  RawUpload twice(*running_->raw().weights);
  twice.SendHeader("w", file.size());
  twice.SendHeader("w", file.size());
  EXPECT_THAT(twice.Finish(), StatusIs(StatusCode::kInvalidArgument, HasSubstr("chunk")));
  RawUpload empty(*running_->raw().weights);
  empty.SendHeader("w", file.size());
  empty.Send({});
  EXPECT_THAT(empty.Finish(), StatusIs(StatusCode::kInvalidArgument, HasSubstr("chunk")));
  for (const int64_t bytes : {int64_t{0}, int64_t{-1}, std::numeric_limits<int64_t>::min()}) {
    RawUpload none(*running_->raw().weights);
    none.SendHeader("w", bytes);
    EXPECT_THAT(none.Finish(), StatusIs(StatusCode::kInvalidArgument, HasSubstr("bytes")));
  }
  ExpectStillServed();
}

TEST_F(UploadTest, RequiresNumHeadsIfShapesDoNotDetermineIt) {
  Parameters parameters;
  for (const char* name : {"q_proj.weight", "k_proj.weight", "v_proj.weight", "o_proj.weight"}) {
    parameters.push_back(FloatParameter(name, {4, 4}, {1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1}));
  }
  const TemporaryFolder folder;
  folder.Write("file", Serialize(parameters));
  CheckpointUpload upload{.file = (folder.path() / "file").string(), .checkpoint = "heads"};
  EXPECT_THAT(client().UploadCheckpoint(upload), StatusIs(StatusCode::kInvalidArgument, HasSubstr("num_heads")));
  upload.options.num_heads = 2;
  const auto loaded = client().UploadCheckpoint(upload);
  ASSERT_THAT(loaded, IsOk());
  EXPECT_EQ(loaded->weight_sets.at(0).num_heads, 2);
  EXPECT_EQ(loaded->weight_sets.at(0).layout, "projections");
}

TEST_F(UploadTest, RemovesTheFileOfACancelledUpload) {
  const std::string file = SquareFile(2);
  {
    RawUpload upload(*running_->raw().weights);
    upload.SendHeader("w", file.size());
    upload.SendChunk(file.substr(0, 600));
    ASSERT_NO_FATAL_FAILURE(AwaitUnfinishedUploads(1));
    upload.Cancel();
    EXPECT_THAT(upload.Finish().status().code(), StatusCode::kCancelled);
  }
  ASSERT_NO_FATAL_FAILURE(AwaitUnfinishedUploads(0));
  ExpectStillServed();
}

TEST_F(UploadTest, LimitsTheNumberOfUploads) {
  std::vector<std::unique_ptr<RawUpload>> uploads;
  const auto begin = [&] {
    uploads.push_back(std::make_unique<RawUpload>(*running_->raw().weights));
    uploads.back()->SendHeader("w", 100);
  };
  for (int i = 0; i < 16; ++i) begin();
  ASSERT_NO_FATAL_FAILURE(AwaitUnfinishedUploads(16));
  // 17 more, of which the last to arrive is refused.
  const auto ended = std::make_shared<EndCount>();
  std::vector<std::future<absl::Status>> ends;
  for (int i = 0; i < 17; ++i) {
    begin();
    ends.push_back(std::async(std::launch::async, [ended, upload = uploads.back().get()] {
      absl::Status status = upload->AwaitEnd();
      ended->Add();
      return status;
    }));
  }
  ended->Await(1);
  EXPECT_EQ(UnfinishedUploads(), 16);
  for (const auto& upload : uploads) upload->Cancel();
  std::vector<absl::Status> refused;
  for (std::future<absl::Status>& end : ends) {
    if (absl::Status status = end.get(); !absl::IsCancelled(status)) refused.push_back(status);
  }
  EXPECT_THAT(refused, ElementsAre(StatusIs(StatusCode::kUnavailable,
                                            "uploads: expected fewer than 16 waiting uploads, got 16")));
  uploads.clear();
  ASSERT_NO_FATAL_FAILURE(AwaitUnfinishedUploads(0));
  EXPECT_THAT(UploadBytes(client(), "w", SquareFile(2)), IsOk());
}

TEST_F(UploadTest, LetsTheNextUploadInWhenOneEnds) {
  std::vector<std::unique_ptr<RawUpload>> uploads;
  for (int i = 0; i < 16; ++i) {
    uploads.push_back(std::make_unique<RawUpload>(*running_->raw().weights));
    uploads.back()->SendHeader("w", 100);
  }
  ASSERT_NO_FATAL_FAILURE(AwaitUnfinishedUploads(16));
  auto waiting = std::async(std::launch::async, [this] { return UploadBytes(client(), "w", SquareFile(2)); });
  uploads.front()->Cancel();
  EXPECT_THAT(waiting.get(), IsOk());
  ExpectStillServed(2);
}

TEST_F(UploadTest, EndsUploadsThatSendNothing) {
  server::Config config;
  config.upload_idle_timeout = absl::Seconds(1);
  ASSERT_NO_FATAL_FAILURE(Start(config));
  std::vector<std::unique_ptr<RawUpload>> silent;
  for (int i = 0; i < 16; ++i) {
    silent.push_back(std::make_unique<RawUpload>(*running_->raw().weights));
    if (i > 0) silent.back()->SendHeader("w", 64 * kMiB);
  }
  EXPECT_THAT(
      silent.front()->AwaitEnd(),
      StatusIs(StatusCode::kDeadlineExceeded, "part: expected a message within --upload-idle-timeout 1s, got none"));
  for (int i = 1; i < 16; ++i) {
    EXPECT_EQ(silent[i]->AwaitEnd().code(), StatusCode::kDeadlineExceeded);
  }
  EXPECT_EQ(UnfinishedUploads(), 0);
  EXPECT_THAT(UploadBytes(client(), "w", SquareFile(2)), IsOk());
}

TEST_F(UploadTest, LimitsTheStorage) {
  server::Config config;
  config.max_weight_storage = 10 * kMiB;
  ASSERT_NO_FATAL_FAILURE(Start(config));
  RawUpload upload(*running_->raw().weights);
  upload.SendHeader("w", 10 * kMiB);
  EXPECT_THAT(upload.AwaitEnd(), StatusIs(StatusCode::kResourceExhausted, HasSubstr("--max-weight-storage 10485760")));
  ExpectStillServed();
}

TEST_F(UploadTest, RejectsAMessageAboveTheLimit) {
  server::Config config;
  config.max_message_bytes = 64 << 10;
  ASSERT_NO_FATAL_FAILURE(Start(config));
  const std::string file = Serialize(ToParameters(RandomLayer({128, 128, 128, {2, 2, 64, 64}, 128}, 1)));
  RawUpload upload(*running_->raw().weights);
  upload.SendHeader("w", file.size());
  upload.SendChunk(file);
  EXPECT_EQ(upload.Finish().status().code(), StatusCode::kResourceExhausted);
  ASSERT_NO_FATAL_FAILURE(AwaitUnfinishedUploads(0));
  ExpectStillServed();
  const auto small_messages = Client::Connect(running_->address(), {.max_message_bytes = config.max_message_bytes});
  EXPECT_THAT(UploadBytes(*small_messages, "large", file), IsOk());
}

// The client sends nothing more, and the grace time is an hour.
TEST_F(UploadTest, EndsWhenTheServerStops) {
  server::Config config;
  config.grace = absl::Hours(1);
  ASSERT_NO_FATAL_FAILURE(Start(config));
  RawUpload upload(*running_->raw().weights);
  upload.SendHeader("w", 100);
  ASSERT_NO_FATAL_FAILURE(AwaitUnfinishedUploads(1));
  running_->server().Stop();
  EXPECT_EQ(UnfinishedUploads(), 0);
  EXPECT_THAT(upload.Finish(), StatusIs(StatusCode::kUnavailable, "server: the server is stopping"));
}

}  // namespace
}  // namespace attention::test
