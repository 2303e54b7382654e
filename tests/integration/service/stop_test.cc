// Stopping: accepted calls complete, later ones are rejected.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "tests/testing/matchers.h"
#include "tests/testing/server/health.h"
#include "tests/testing/server/raw_call.h"
#include "tests/testing/server/requests.h"
#include "tests/testing/server/running_server.h"
#include "tests/testing/server/wire.h"

namespace attention::test {
namespace {

using grpc::health::v1::HealthCheckResponse;

class StopTest : public ::testing::Test {
 protected:
  void Start(absl::Duration grace) {
    server::Config config;
    config.grace = grace;
    config.max_batch_requests = 1;
    auto running =
        RunningServer::Start({.checkpoints = {{"ones", ToParameters(OnesLayer())}}, .config = config, .gate = &gate_});
    ASSERT_THAT(running, IsOk());
    running_ = *std::move(running);
    watch_ = std::make_unique<HealthWatch>(running_->raw().channel, "");
    ASSERT_EQ(watch_->Next(), HealthCheckResponse::SERVING);
    gate_.Close();
    held_ = Send();
    gate_.AwaitHeld();
  }

  std::unique_ptr<RawCall> Send() {
    return std::make_unique<RawCall>(*running_->raw().attention, QuestionRequest("ones"), RawCall::Options());
  }

  // Runs Stop on another thread and returns once health watchers were notified.
  std::thread BeginStop() {
    std::thread stopping([this] { running_->server().Stop(); });
    EXPECT_EQ(watch_->Next(), HealthCheckResponse::NOT_SERVING);
    return stopping;
  }

  void TearDown() override { gate_.Open(); }

  Gate gate_;
  std::unique_ptr<RunningServer> running_;
  std::unique_ptr<HealthWatch> watch_;
  std::unique_ptr<RawCall> held_;
};

// When the stop begins, one call is being computed and two are queued.
TEST_F(StopTest, CompletesAcceptedCalls) {
  ASSERT_NO_FATAL_FAILURE(Start(absl::Hours(1)));
  const auto stream = running_->client().OpenStream();
  for (const char* id : {"a", "b", "unknown"}) {
    v1::AttendRequest request = QuestionRequest(id == std::string("unknown") ? "unknown" : "ones");
    request.set_request_id(id);
    ASSERT_THAT(stream->Write(ClientRequest(request)), IsOk());
  }
  ASSERT_EQ(stream->Read()->request_id, "unknown");
  stream->WritesDone();

  std::thread stopping = BeginStop();
  gate_.Open();
  ASSERT_THAT(held_->Await(), IsOk());
  EXPECT_THAT(ClientTensor(held_->response().output()), Near(QuestionAnswer()));
  for (const char* id : {"a", "b"}) {
    const auto item = stream->Read();
    ASSERT_TRUE(item.has_value());
    EXPECT_EQ(item->request_id, id);
    ASSERT_THAT(item->reply, IsOk());
    EXPECT_THAT(item->reply->output, Near(QuestionAnswer()));
  }
  EXPECT_FALSE(stream->Read().has_value());
  EXPECT_THAT(stream->Finish(), IsOk());
  stopping.join();
}

TEST_F(StopTest, RejectsLaterCalls) {
  ASSERT_NO_FATAL_FAILURE(Start(absl::Hours(1)));
  std::thread stopping = BeginStop();
  // Calls are rejected shortly after watchers are notified. Until then the server looks up the weight set.
  const v1::AttendRequest unknown = QuestionRequest("unknown");
  absl::Status status = absl::NotFoundError("");
  while (absl::IsNotFound(status)) status = running_->AttendRaw(unknown).status();
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kUnavailable, ::testing::_));
  EXPECT_THAT(Send()->Await(), StatusIs(absl::StatusCode::kUnavailable, ::testing::_));
  gate_.Open();
  EXPECT_THAT(held_->Await(), IsOk());
  stopping.join();
}

// The call ends after the grace time, although the engine is still computing.
TEST_F(StopTest, CancelsCallsThatExceedTheGraceTime) {
  ASSERT_NO_FATAL_FAILURE(Start(absl::Milliseconds(50)));
  std::thread stopping = BeginStop();
  const absl::Status status = held_->Await();
  EXPECT_THAT(status.code(), ::testing::AnyOf(absl::StatusCode::kCancelled, absl::StatusCode::kUnavailable)) << status;
  gate_.Open();
  stopping.join();
}

// Neither would end by itself, and the grace time is an hour.
TEST_F(StopTest, DoesNotWaitForWatchersAndIdleStreams) {
  ASSERT_NO_FATAL_FAILURE(Start(absl::Hours(1)));
  const auto idle = running_->client().OpenStream();
  v1::AttendRequest request = QuestionRequest("unknown");
  ASSERT_THAT(idle->Write(ClientRequest(request)), IsOk());
  ASSERT_TRUE(idle->Read().has_value());
  gate_.Open();
  running_->server().Stop();
  EXPECT_EQ(watch_->Next(), HealthCheckResponse::NOT_SERVING);
  EXPECT_FALSE(idle->Read().has_value());
  EXPECT_FALSE(idle->Finish().ok());
  EXPECT_THAT(held_->Await(), IsOk());
}

TEST_F(StopTest, IsIdempotent) {
  ASSERT_NO_FATAL_FAILURE(Start(absl::Hours(1)));
  gate_.Open();
  EXPECT_THAT(held_->Await(), IsOk());
  running_->server().Stop();
  running_->server().Stop();
  EXPECT_THAT(running_->AttendRaw(QuestionRequest("ones")), StatusIs(absl::StatusCode::kUnavailable, ::testing::_));
}

}  // namespace
}  // namespace attention::test
