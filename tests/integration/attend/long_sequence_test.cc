// A small request whose scores would fill 14 GB if they were ever all there.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <string>

#include "tests/testing/matchers.h"
#include "tests/testing/running_server.h"
#include "tests/testing/wire.h"

namespace attention::test {
namespace {

constexpr int64_t kLength = 60000;

// The largest resident size that this process has had, in KiB.
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

// Keys alternate between 0 and ln 3, values between 1 and 2: a query of 1 weighs them 1 to 3, one of 0 evenly.
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
  Expected wanted = {{1, kLength, 1}, {}, 1e-4};
  for (float number : Alternating(1.75f, 1.5f)) wanted.values.push_back(number);
  EXPECT_THAT(reply->output, Near(wanted));
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
  // From query 63 on as many values of 1 as of 2.
  EXPECT_THAT(windowed->output.Floats()[0], 1);
  EXPECT_THAT(windowed->output.Floats()[63], 1.5);
  EXPECT_THAT(windowed->output.Floats()[kLength - 1], 1.5);
}

// Two tiles of scores over 61440 keys (their bucket) are 60 MiB.
TEST(LongSequenceTest, IsRefusedIfItsTilesAreLargerThanTheLimit) {
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
                       ::testing::AllOf(::testing::HasSubstr("--max-inflight-bytes allows 16777216"),
                                        ::testing::HasSubstr("bytes to compute it in"))));
  *request.mutable_inputs_k() = WireFloats({1, 2, 1}, {1, 1});
  EXPECT_THAT((*running)->client().Attend(ClientRequest(request)), IsOk());
}

}  // namespace
}  // namespace attention::test
