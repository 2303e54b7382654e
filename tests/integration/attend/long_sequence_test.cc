// A small request whose scores would need 14 GB if they were all stored.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <string>

#include "tests/testing/matchers.h"
#include "tests/testing/server/running_server.h"
#include "tests/testing/server/wire.h"

namespace attention::test {
namespace {

constexpr int64_t kLength = 60000;

// The largest resident set size of this process so far, in KiB.
int64_t PeakKiB() {
  std::ifstream status("/proc/self/status");
  std::string word;
  int64_t value = 0;
  while (status >> word) {
    if (word == "VmHWM:" && status >> value) return value;
  }
  return 0;
}

std::vector<float> Alternating(float even, float odd) {
  std::vector<float> numbers(kLength);
  for (int64_t i = 0; i < kLength; ++i) numbers[i] = i % 2 == 0 ? even : odd;
  return numbers;
}

// Keys alternate between 0 and ln 3, values between 1 and 2: a query of 1 has the weights 1 to 3, a query of 0 equal
// weights.
TEST(LongSequenceTest, IsAnsweredInBoundedMemory) {
  auto running = RunningServer::Start({.checkpoints = {{"w", ToParameters(IdentityLayer(1))}}});
  ASSERT_THAT(running, IsOk());
  v1::AttendRequest request;
  request.set_weight_set("w");
  *request.mutable_inputs_q() = WireFloats({1, kLength, 1}, Alternating(1, 0));
  *request.mutable_inputs_k() = WireFloats({1, kLength, 1}, Alternating(0, std::log(3.0f)));
  *request.mutable_inputs_v() = WireFloats({1, kLength, 1}, Alternating(1, 2));

  const int64_t before = PeakKiB();
  ASSERT_GT(before, 0);
  const auto reply = (*running)->client().Attend(ClientRequest(request));
  ASSERT_THAT(reply, IsOk());
  Expected expected = {{1, kLength, 1}, {}, 1e-4};
  for (float number : Alternating(1.75f, 1.5f)) expected.values.push_back(number);
  EXPECT_THAT(reply->output, Near(expected));
  EXPECT_LT(PeakKiB() - before, 512 * 1024);
}

TEST(LongSequenceTest, SlidesAWindowOverEveryQuery) {
  auto running = RunningServer::Start();
  ASSERT_THAT(running, IsOk());
  v1::AttendRequest request;
  request.mutable_heads()->set_num_heads(1);
  request.mutable_heads()->set_axes(v1::HeadLayout::AXES_LENGTH_FEATURES);
  *request.mutable_inputs_q() = WireFloats({kLength, 1}, Alternating(1, 1));
  *request.mutable_inputs_k() = WireFloats({kLength, 1}, Alternating(0, 0));
  *request.mutable_inputs_v() = WireFloats({kLength, 1}, Alternating(1, 2));
  v1::SlidingWindow& window = *request.mutable_mask()->mutable_window();
  window.mutable_diagonal()->set_corner(v1::Diagonal::CORNER_TOP_LEFT);
  window.set_left(63);
  window.set_right(0);
  const auto windowed = (*running)->client().Attend(ClientRequest(request));
  ASSERT_THAT(windowed, IsOk());
  // From query 63 on, a window has equally many values of 1 and 2.
  EXPECT_THAT(windowed->output.Floats()[0], 1);
  EXPECT_THAT(windowed->output.Floats()[63], 1.5);
  EXPECT_THAT(windowed->output.Floats()[kLength - 1], 1.5);
}

// Two tiles of scores for 61440 keys (the bucket size) need 60 MiB.
TEST(LongSequenceTest, IsRejectedIfItsTilesExceedTheLimit) {
  server::Config config;
  config.threads = 1;
  config.max_inflight_bytes = config.max_message_bytes = 16 << 20;
  auto running = RunningServer::Start({.checkpoints = {{"w", ToParameters(IdentityLayer(1))}}, .config = config});
  ASSERT_THAT(running, IsOk());
  v1::AttendRequest request;
  request.set_weight_set("w");
  *request.mutable_inputs_q() = WireFloats({1, 1, 1}, {1});
  *request.mutable_inputs_k() = WireFloats({1, kLength, 1}, Alternating(1, 2));
  EXPECT_THAT((*running)->client().Attend(ClientRequest(request)),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       ::testing::StartsWith("request: expected at most 16777216 bytes of working memory "
                                             "(--max-inflight-bytes), got ")));
  *request.mutable_inputs_k() = WireFloats({1, 2, 1}, {1, 1});
  EXPECT_THAT((*running)->client().Attend(ClientRequest(request)), IsOk());
}

}  // namespace
}  // namespace attention::test
