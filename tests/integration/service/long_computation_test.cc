#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "tests/testing/files/weights.h"
#include "tests/testing/matchers.h"
#include "tests/testing/server/raw_call.h"
#include "tests/testing/server/requests.h"
#include "tests/testing/server/running_server.h"
#include "tests/testing/server/wire.h"

namespace attention::test {
namespace {

using ::testing::_;

// Far longer than any of these tests may take, and far shorter than the long request takes.
constexpr absl::Duration kSoon = absl::Seconds(15);

class LongComputationTest : public ::testing::Test {
 protected:
  void Start(server::Config config) {
    config.threads = 1;
    config.max_request_cost = 0;
    auto running = RunningServer::Start({.checkpoints = {{"ones", ToParameters(OnesLayer())}}, .config = config});
    ASSERT_THAT(running, IsOk());
    running_ = *std::move(running);
  }

  // 1.2 MB that take minutes to compute: a sequence of 300000 rows of one number, without projections.
  static v1::AttendRequest LongRequest() {
    constexpr int64_t kLength = 300'000;
    v1::AttendRequest request;
    request.mutable_heads()->set_num_heads(1);
    request.mutable_heads()->set_axes(v1::HeadLayout::AXES_LENGTH_HEADS);
    *request.mutable_inputs_q() = WireFloats({kLength, 1, 1}, std::vector<float>(kLength, 0.5f));
    return request;
  }

  std::unique_ptr<RawCall> Send(const v1::AttendRequest& request, absl::Duration timeout = absl::InfiniteDuration()) {
    return std::make_unique<RawCall>(*running_->raw().attention, request, RawCall::Options{.timeout = timeout});
  }

  std::unique_ptr<RunningServer> running_;
};

TEST_F(LongComputationTest, DoesNotDelayASmallRequest) {
  ASSERT_NO_FATAL_FAILURE(Start({}));
  const auto long_call = Send(LongRequest());
  for (int i = 0; i < 20; ++i) {
    const auto small = Send(QuestionRequest("ones"), kSoon);
    ASSERT_THAT(small->Await(), IsOk());
    EXPECT_THAT(ClientTensor(small->response().output()), Near(QuestionAnswer()));
  }
  EXPECT_FALSE(long_call->HasEnded());
}

TEST_F(LongComputationTest, EndsAtItsDeadlineAndMakesRoomForTheNext) {
  server::Config config;
  config.small_threads = 0;
  ASSERT_NO_FATAL_FAILURE(Start(config));
  const auto long_call = Send(LongRequest(), absl::Milliseconds(300));
  EXPECT_THAT(long_call->Await(), StatusIs(absl::StatusCode::kDeadlineExceeded, _));
  const auto next = Send(QuestionRequest("ones"), kSoon);
  EXPECT_THAT(next->Await(), IsOk());
}

TEST_F(LongComputationTest, EndsWhenItsCallerHangsUp) {
  server::Config config;
  config.small_threads = 0;
  ASSERT_NO_FATAL_FAILURE(Start(config));
  auto long_call = Send(LongRequest());
  const auto waiting = Send(QuestionRequest("ones"), kSoon);
  long_call.reset();
  EXPECT_THAT(waiting->Await(), IsOk());
}

TEST_F(LongComputationTest, EndsWithTheGraceTime) {
  server::Config config;
  config.grace = absl::Milliseconds(200);
  config.small_threads = 0;
  ASSERT_NO_FATAL_FAILURE(Start(config));
  const auto long_call = Send(LongRequest());
  // Small requests are answered until the long one is computed.
  while (Send(QuestionRequest("ones"), absl::Milliseconds(200))->Await().ok()) {
  }
  running_->server().Stop();
  EXPECT_THAT(long_call->Await(),
              StatusIs(absl::StatusCode::kUnavailable, "server: the grace time ended before the computation"));
}

}  // namespace
}  // namespace attention::test
