// AttendStream over a socket.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "tests/testing/matchers.h"
#include "tests/testing/server/requests.h"
#include "tests/testing/server/running_server.h"
#include "tests/testing/server/wire.h"

namespace attention::test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class StreamTest : public ::testing::Test {
 protected:
  void Start(RunningServerOptions options) {
    options.checkpoints = {{"ones", ToParameters(OnesLayer())}};
    auto running = RunningServer::Start(options);
    ASSERT_THAT(running, IsOk());
    running_ = *std::move(running);
    stream_ = running_->client().OpenStream();
  }

  void Write(const std::string& weight_set, const std::string& id, float value, int priority = 0) {
    v1::AttendRequest request = ConstantRequest(weight_set, value);
    request.set_request_id(id);
    request.set_priority(priority);
    ASSERT_THAT(stream_->Write(ClientRequest(request)), IsOk());
  }

  // Once the server has rejected this request, it has read all earlier ones.
  void AwaitRead() {
    Write("unknown", "unknown", 0);
    const auto item = stream_->Read();
    ASSERT_TRUE(item.has_value());
    ASSERT_EQ(item->request_id, "unknown");
  }

  // Reads all further replies and returns their ids in order. The id of a request is the value of its inputs; checks
  // each reply for that value.
  std::vector<std::string> ReadAll() {
    std::vector<std::string> ids;
    while (auto item = stream_->Read()) {
      ids.push_back(item->request_id);
      EXPECT_THAT(item->reply, IsOk());
      if (!item->reply.ok()) continue;
      EXPECT_EQ(item->reply->request_id, item->request_id);
      EXPECT_THAT(item->reply->output, Near(ConstantAnswer(std::stof(item->request_id))));
    }
    return ids;
  }

  Gate gate_;
  std::unique_ptr<RunningServer> running_;
  std::unique_ptr<AttendStream> stream_;
};

TEST_F(StreamTest, AnswersEachRequestUnderItsId) {
  Start({});
  constexpr int kRequests = 200;
  std::vector<std::string> expected;
  for (int i = 0; i < kRequests; ++i) expected.push_back(std::to_string(i));
  // More requests than the server reads before the first reply is read, so reading and writing must overlap.
  std::thread writer([&] {
    for (int i = 0; i < kRequests; ++i) Write("ones", expected[i], static_cast<float>(i));
    stream_->WritesDone();
  });
  EXPECT_THAT(ReadAll(), ::testing::UnorderedElementsAreArray(expected));
  writer.join();
  EXPECT_THAT(stream_->Finish(), IsOk());
}

// An error that only the computation detects also ends its own request only.
TEST_F(StreamTest, ContinuesAfterAnEmptyRowError) {
  Start({});
  v1::AttendRequest request;
  request.mutable_heads()->set_num_heads(1);
  request.mutable_heads()->set_axes(v1::HeadLayout::AXES_LENGTH_FEATURES);
  *request.mutable_inputs_q() = WireFloats({1, 1}, {7});
  request.mutable_options()->set_empty_rows(v1::EMPTY_ROWS_ERROR);
  request.mutable_mask()->add_kv_lengths(0);
  request.set_request_id("empty");
  ASSERT_THAT(stream_->Write(ClientRequest(request)), IsOk());
  auto item = stream_->Read();
  ASSERT_TRUE(item.has_value());
  EXPECT_EQ(item->request_id, "empty");
  EXPECT_THAT(item->reply, StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("got 1 row without one")));
  request.clear_mask();
  request.set_request_id("full");
  ASSERT_THAT(stream_->Write(ClientRequest(request)), IsOk());
  item = stream_->Read();
  ASSERT_TRUE(item.has_value());
  EXPECT_EQ(item->request_id, "full");
  ASSERT_THAT(item->reply, IsOk());
  EXPECT_THAT(item->reply->output, Near(Expected{{1, 1}, {7}}));
  EXPECT_THAT(stream_->Finish(), IsOk());
}

TEST_F(StreamTest, ContinuesAfterTheErrorOfOneRequest) {
  Start({});
  Write("no-such-set", "bad", 1);
  auto item = stream_->Read();
  ASSERT_TRUE(item.has_value());
  EXPECT_EQ(item->request_id, "bad");
  EXPECT_THAT(item->reply, StatusIs(absl::StatusCode::kNotFound, HasSubstr("no-such-set")));

  v1::AttendRequest wrong = ConstantRequest("ones", 1);
  wrong.set_request_id("wrong");
  *wrong.mutable_inputs_q() = WireFloats({1, 2}, {1, 1});
  ASSERT_THAT(stream_->Write(ClientRequest(wrong)), IsOk());
  item = stream_->Read();
  ASSERT_TRUE(item.has_value());
  EXPECT_EQ(item->request_id, "wrong");
  EXPECT_THAT(item->reply, StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("inputs_q")));

  Write("ones", "5", 5);
  stream_->WritesDone();
  EXPECT_THAT(ReadAll(), ElementsAre("5"));
  EXPECT_THAT(stream_->Finish(), IsOk());
}

TEST_F(StreamTest, EndsWithoutRequests) {
  Start({});
  stream_->WritesDone();
  EXPECT_FALSE(stream_->Read().has_value());
  EXPECT_THAT(stream_->Finish(), IsOk());
}

// The first request blocks the runner. The others are queued and taken by priority, then by arrival.
TEST_F(StreamTest, AnswersInTheOrderInWhichRequestsFinish) {
  RunningServerOptions options = {.gate = &gate_};
  options.config.max_batch_requests = 1;
  Start(options);
  gate_.Close();
  Write("ones", "1", 1);
  gate_.AwaitHeld();
  Write("ones", "2", 2, -1);
  Write("ones", "3", 3);
  Write("ones", "4", 4, 7);
  Write("ones", "5", 5);
  AwaitRead();
  gate_.Open();
  stream_->WritesDone();
  EXPECT_THAT(ReadAll(), ElementsAre("1", "4", "3", "5", "2"));
  EXPECT_THAT(stream_->Finish(), IsOk());
}

TEST_F(StreamTest, SharesBatchesBetweenRequestsOfOneStream) {
  Start({.gate = &gate_});
  gate_.Close();
  Write("ones", "1", 1);
  gate_.AwaitHeld();
  for (const char* id : {"2", "3", "4"}) Write("ones", id, std::stof(id));
  AwaitRead();
  gate_.Open();
  stream_->WritesDone();
  EXPECT_THAT(ReadAll(), ::testing::UnorderedElementsAre("1", "2", "3", "4"));
  EXPECT_EQ(gate_.batches(), 2);
}

TEST_F(StreamTest, StopsReadingAt64ActiveRequests) {
  RunningServerOptions options = {.gate = &gate_};
  options.config.max_batch_requests = 1;
  options.config.max_queued_requests = 64;
  Start(options);
  gate_.Close();
  // More than the queue and the runner hold: if the server read all of them, some would be rejected.
  constexpr int kRequests = 100;
  std::thread writer([&] {
    for (int i = 0; i < kRequests; ++i) Write("ones", std::to_string(i), static_cast<float>(i));
    stream_->WritesDone();
  });
  gate_.AwaitHeld();
  gate_.Open();
  EXPECT_EQ(ReadAll().size(), static_cast<size_t>(kRequests));
  writer.join();
  EXPECT_THAT(stream_->Finish(), IsOk());
}

TEST_F(StreamTest, EndsWithTheDeadlineOfTheCall) {
  Start({.gate = &gate_});
  gate_.Close();
  stream_ = running_->client().OpenStream({.timeout = std::chrono::milliseconds(200)});
  Write("ones", "1", 1);
  gate_.AwaitHeld();
  while (stream_->Read().has_value()) {
  }
  EXPECT_THAT(stream_->Finish(), StatusIs(absl::StatusCode::kDeadlineExceeded, ::testing::_));
  gate_.Open();
}

TEST_F(StreamTest, CanBeCancelledWhileARequestIsComputed) {
  Start({.gate = &gate_});
  gate_.Close();
  Write("ones", "1", 1);
  gate_.AwaitHeld();
  stream_->Cancel();
  EXPECT_FALSE(stream_->Read().has_value());
  EXPECT_THAT(stream_->Finish(), StatusIs(absl::StatusCode::kCancelled, ::testing::_));
  gate_.Open();
}

}  // namespace
}  // namespace attention::test
