// Requests in the queue: a full queue, deadlines, cancellation.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/testing/matchers.h"
#include "tests/testing/server/raw_call.h"
#include "tests/testing/server/requests.h"
#include "tests/testing/server/running_server.h"
#include "tests/testing/server/wire.h"

namespace attention::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// A server whose runner is blocked with one request, and whose queue has room for one more.
class QueueTest : public ::testing::Test {
 protected:
  void SetUp() override {
    server::Config config;
    config.max_batch_requests = 1;
    config.max_queued_requests = 1;
    auto running =
        RunningServer::Start({.checkpoints = {{"ones", ToParameters(OnesLayer())}}, .config = config, .gate = &gate_});
    ASSERT_THAT(running, IsOk());
    running_ = *std::move(running);
    stream_ = running_->client().OpenStream();
    gate_.Close();
    held_ = Send();
    gate_.AwaitHeld();
  }

  // The server cannot stop while calls are blocked.
  void TearDown() override { gate_.Open(); }

  std::unique_ptr<RawCall> Send(const RawCall::Options& options = {}) {
    return std::make_unique<RawCall>(*running_->raw().attention, QuestionRequest("ones"), options);
  }

  // Two calls, one queued and one rejected.
  struct Pair {
    std::unique_ptr<RawCall> queued;
    std::unique_ptr<RawCall> rejected;
  };

  Pair SendTwo() {
    const auto ended = std::make_shared<EndCount>();
    auto first = Send({.count = ended});
    auto second = Send({.count = ended});
    ended->Await(1);
    if (first->HasEnded()) std::swap(first, second);
    return {std::move(first), std::move(second)};
  }

  void WriteToStream(const std::string& weight_set) {
    v1::AttendRequest request = QuestionRequest(weight_set);
    request.set_request_id(weight_set);
    ASSERT_THAT(stream_->Write(ClientRequest(request)), IsOk());
  }

  // Sends a request by the stream and returns whether it was queued. A second, invalid request follows it. If the first
  // reply is the error of the second request, the first one was queued.
  bool TryByStream() {
    WriteToStream("ones");
    WriteToStream("unknown");
    bool queued = true;
    while (auto item = stream_->Read()) {
      if (item->request_id == "unknown") return queued;
      EXPECT_THAT(item->reply, StatusIs(absl::StatusCode::kUnavailable, HasSubstr("queue")));
      queued = false;
    }
    ADD_FAILURE() << "the stream broke";
    return true;
  }

  void ExpectRight(RawCall& call) {
    ASSERT_THAT(call.Await(), IsOk());
    EXPECT_THAT(ClientTensor(call.response().output()), Near(QuestionAnswer()));
  }

  // Opens the gate and expects the reply to the request that the stream sent last.
  void ExpectStreamIsAnswered() {
    gate_.Open();
    const auto item = stream_->Read();
    ASSERT_TRUE(item.has_value());
    EXPECT_EQ(item->request_id, "ones");
    ASSERT_THAT(item->reply, IsOk());
    EXPECT_THAT(item->reply->output, Near(QuestionAnswer()));
  }

  Gate gate_;
  std::unique_ptr<RunningServer> running_;
  std::unique_ptr<AttendStream> stream_;
  std::unique_ptr<RawCall> held_;
};

TEST_F(QueueTest, RejectsARequestWithARetryPushbackIfFull) {
  const Pair pair = SendTwo();
  EXPECT_THAT(pair.rejected->Await(),
              StatusIs(absl::StatusCode::kUnavailable, AllOf(HasSubstr("--max-queued-requests"), HasSubstr("1"))));
  const auto pushback = pair.rejected->Trailer("grpc-retry-pushback-ms");
  ASSERT_TRUE(pushback.has_value());
  EXPECT_GT(std::stoi(*pushback), 0);
  gate_.Open();
  ExpectRight(*held_);
  ExpectRight(*pair.queued);
}

TEST_F(QueueTest, AnswersOrRejectsEachOfManyConcurrentRequests) {
  constexpr int kCalls = 20;
  const auto ended = std::make_shared<EndCount>();
  std::vector<std::unique_ptr<RawCall>> calls;
  for (int i = 0; i < kCalls; ++i) calls.push_back(Send({.count = ended}));
  ended->Await(kCalls - 1);
  gate_.Open();
  int answered = 0;
  for (auto& call : calls) {
    if (call->Await().ok()) {
      ++answered;
      ExpectRight(*call);
    } else {
      EXPECT_THAT(call->Await(), StatusIs(absl::StatusCode::kUnavailable, HasSubstr("queue")));
    }
  }
  EXPECT_EQ(answered, 1);
  ExpectRight(*held_);
}

// Its place in the queue must become free while the runner is still busy.
TEST_F(QueueTest, RemovesARequestAtItsDeadline) {
  const auto late = Send({.timeout = absl::Milliseconds(100)});
  EXPECT_THAT(late->Await(), StatusIs(absl::StatusCode::kDeadlineExceeded, ::testing::_));
  while (!TryByStream()) {
  }
  ExpectStreamIsAnswered();
  ExpectRight(*held_);
  EXPECT_EQ(gate_.batches(), 2);
}

TEST_F(QueueTest, RemovesACancelledRequest) {
  const Pair pair = SendTwo();
  pair.queued->Cancel();
  EXPECT_THAT(pair.queued->Await(), StatusIs(absl::StatusCode::kCancelled, ::testing::_));
  while (!TryByStream()) {
  }
  ExpectStreamIsAnswered();
  ExpectRight(*held_);
  EXPECT_EQ(gate_.batches(), 2);
}

TEST_F(QueueTest, RemovesTheRequestsOfACancelledStream) {
  while (!TryByStream()) {
  }
  stream_->Cancel();
  stream_ = running_->client().OpenStream();
  while (!TryByStream()) {
  }
  ExpectStreamIsAnswered();
  EXPECT_EQ(gate_.batches(), 2);
}

TEST_F(QueueTest, ComputesNothingAfterTheDeadline) {
  const auto late = Send({.timeout = -absl::Seconds(1)});
  EXPECT_THAT(late->Await(), StatusIs(absl::StatusCode::kDeadlineExceeded, ::testing::_));
  gate_.Open();
  ExpectRight(*held_);
  EXPECT_EQ(gate_.batches(), 1);
}

// The batch timeout of a minute exceeds the deadline of this call.
TEST(QueueDeadlineTest, ClosesABatchBeforeADeadlineInIt) {
  server::Config config;
  config.batch_timeout = absl::Minutes(1);
  auto running = RunningServer::Start({.checkpoints = {{"ones", ToParameters(OnesLayer())}}, .config = config});
  ASSERT_THAT(running, IsOk());
  const auto reply =
      (*running)->client().Attend(ClientRequest(QuestionRequest("ones")), {.timeout = std::chrono::seconds(2)});
  ASSERT_THAT(reply, IsOk());
  EXPECT_THAT(reply->output, Near(QuestionAnswer()));
  EXPECT_EQ(reply->timing.batch_close_reason, "TIMEOUT");
}

}  // namespace
}  // namespace attention::test
