// Every status code of the server, once over a socket.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/testing/matchers.h"
#include "tests/testing/server/raw_call.h"
#include "tests/testing/server/requests.h"
#include "tests/testing/server/running_server.h"
#include "tests/testing/server/wire.h"

namespace attention::test {
namespace {

using absl::StatusCode;
using ::testing::_;
using ::testing::AllOf;
using ::testing::HasSubstr;

class StatusCodesTest : public ::testing::Test {
 protected:
  void Start(RunningServerOptions options = {}) {
    options.checkpoints["ones"] = ToParameters(OnesLayer());
    auto running = RunningServer::Start(options);
    ASSERT_THAT(running, IsOk());
    running_ = *std::move(running);
  }

  absl::Status Attend(const v1::AttendRequest& request) { return running_->AttendRaw(request).status(); }

  std::unique_ptr<RawCall> Send() {
    return std::make_unique<RawCall>(*running_->raw().attention, QuestionRequest("ones"), RawCall::Options());
  }

  Gate gate_;
  std::unique_ptr<RunningServer> running_;
};

TEST_F(StatusCodesTest, InvalidArgumentForAnInvalidRequest) {
  ASSERT_NO_FATAL_FAILURE(Start());
  v1::AttendRequest request = QuestionRequest("ones");
  *request.mutable_inputs_k() = WireFloats({1, 7, 3}, std::vector<float>(21, 1));
  *request.mutable_inputs_v() = WireFloats({1, 8, 3}, std::vector<float>(24, 1));
  EXPECT_THAT(Attend(request), StatusIs(StatusCode::kInvalidArgument, AllOf(HasSubstr("inputs_k"), HasSubstr("7"),
                                                                            HasSubstr("inputs_v"), HasSubstr("8"))));
}

TEST_F(StatusCodesTest, NotFoundForAnUnknownName) {
  ASSERT_NO_FATAL_FAILURE(Start());
  EXPECT_THAT(Attend(QuestionRequest("no-such-set")), StatusIs(StatusCode::kNotFound, HasSubstr("no-such-set")));
}

TEST_F(StatusCodesTest, AlreadyExistsForANameOfAnotherCheckpoint) {
  ASSERT_NO_FATAL_FAILURE(Start({.checkpoints = {{"a", ToParameters(OnesLayer(), "b/")}}}));
  EXPECT_THAT(running_->Load("a/b", ToParameters(OnesLayer())), StatusIs(StatusCode::kAlreadyExists, HasSubstr("a/b")));
  EXPECT_THAT(Attend(QuestionRequest("a/b")), IsOk());
}

TEST_F(StatusCodesTest, ResourceExhaustedForARequestAboveALimit) {
  RunningServerOptions options;
  options.config.max_inflight_bytes = 50000;
  options.config.max_message_bytes = 50000;
  ASSERT_NO_FATAL_FAILURE(Start(options));
  // 27000 bytes of inputs and 36000 bytes of outputs: together they exceed the limit.
  v1::AttendRequest request;
  request.set_weight_set("ones");
  *request.mutable_inputs_q() = WireFloats({2250, 3}, std::vector<float>(6750, 1));
  EXPECT_THAT(Attend(request),
              StatusIs(StatusCode::kResourceExhausted, AllOf(HasSubstr("--max-inflight-bytes"), HasSubstr("50000"))));
  EXPECT_THAT(Attend(QuestionRequest("ones")), IsOk());
}

TEST_F(StatusCodesTest, ResourceExhaustedForWeightsAboveTheirLimit) {
  RunningServerOptions options;
  options.config.max_weight_bytes = 300;
  ASSERT_NO_FATAL_FAILURE(Start(options));
  EXPECT_THAT(running_->Load("more", ToParameters(OnesLayer())),
              StatusIs(StatusCode::kResourceExhausted, AllOf(HasSubstr("--max-weight-bytes"), HasSubstr("300"))));
}

TEST_F(StatusCodesTest, UnavailableForAFullQueue) {
  RunningServerOptions options = {.gate = &gate_};
  options.config.max_batch_requests = 1;
  options.config.max_queued_requests = 1;
  ASSERT_NO_FATAL_FAILURE(Start(options));
  gate_.Close();
  const auto held = Send();
  gate_.AwaitHeld();
  const auto ended = std::make_shared<EndCount>();
  RawCall first(*running_->raw().attention, QuestionRequest("ones"), {.count = ended});
  RawCall second(*running_->raw().attention, QuestionRequest("ones"), {.count = ended});
  ended->Await(1);
  RawCall& rejected = first.HasEnded() ? first : second;
  EXPECT_THAT(rejected.Await(), StatusIs(StatusCode::kUnavailable, HasSubstr("--max-queued-requests")));
  gate_.Open();
}

TEST_F(StatusCodesTest, UnavailableOnceTheServerHasStopped) {
  ASSERT_NO_FATAL_FAILURE(Start());
  running_->server().Stop();
  EXPECT_THAT(Attend(QuestionRequest("ones")), StatusIs(StatusCode::kUnavailable, _));
}

TEST_F(StatusCodesTest, DeadlineExceededForALateCall) {
  ASSERT_NO_FATAL_FAILURE(Start({.gate = &gate_}));
  gate_.Close();
  RawCall late(*running_->raw().attention, QuestionRequest("ones"), {.timeout = absl::Milliseconds(100)});
  EXPECT_THAT(late.Await(), StatusIs(StatusCode::kDeadlineExceeded, _));
  gate_.Open();
}

TEST_F(StatusCodesTest, CancelledForACancelledCall) {
  ASSERT_NO_FATAL_FAILURE(Start({.gate = &gate_}));
  gate_.Close();
  const auto call = Send();
  gate_.AwaitHeld();
  call->Cancel();
  EXPECT_THAT(call->Await(), StatusIs(StatusCode::kCancelled, _));
  gate_.Open();
}

TEST_F(StatusCodesTest, InternalForAnEngineError) {
  ASSERT_NO_FATAL_FAILURE(Start({.compute = [](const auto&, auto) { return absl::InternalError("engine: broken"); }}));
  EXPECT_THAT(Attend(QuestionRequest("ones")), StatusIs(StatusCode::kInternal, HasSubstr("engine: broken")));
}

}  // namespace
}  // namespace attention::test
