#include "client/internal/channel.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "tests/testing/matchers.h"

namespace attention {
namespace {

using std::chrono_literals::operator""ms;
using test::IsOk;
using test::StatusIs;

TEST(ClientChannelTest, AcceptsTheDefaultOptions) { EXPECT_THAT(CheckOptions({}), IsOk()); }

TEST(ClientChannelTest, NamesTheOptionThatIsOutOfRange) {
  const auto invalid = absl::StatusCode::kInvalidArgument;
  EXPECT_THAT(CheckOptions({.max_message_bytes = 0}),
              StatusIs(invalid, "max_message_bytes: expected 1 to 2147483647, got 0"));
  EXPECT_THAT(CheckOptions({.max_message_bytes = 2147483648}),
              StatusIs(invalid, "max_message_bytes: expected 1 to 2147483647, got 2147483648"));
  EXPECT_THAT(CheckOptions({.max_attempts = 0}), StatusIs(invalid, "max_attempts: expected 1 to 5, got 0"));
  EXPECT_THAT(CheckOptions({.max_attempts = 6}), StatusIs(invalid, "max_attempts: expected 1 to 5, got 6"));
  EXPECT_THAT(CheckOptions({.retry_initial_backoff = 0ms}),
              StatusIs(invalid, "retry_initial_backoff: expected at least 1 ms, got 0 ms"));
  EXPECT_THAT(CheckOptions({.retry_initial_backoff = 20ms, .retry_max_backoff = 19ms}),
              StatusIs(invalid, "retry_max_backoff: expected at least 20 ms as in retry_initial_backoff, got 19 ms"));
}

TEST(ClientChannelTest, ServiceConfigHoldsTheRetryOptions) {
  const std::string text =
      ServiceConfigJson({.max_attempts = 3, .retry_initial_backoff = 7ms, .retry_max_backoff = 12345ms});
  const nlohmann::json method = nlohmann::json::parse(text).at("methodConfig").at(0);
  EXPECT_EQ(method.at("retryPolicy"), nlohmann::json::parse(R"({
    "maxAttempts": 3, "initialBackoff": "0.007s", "maxBackoff": "12.345s", "backoffMultiplier": 2,
    "retryableStatusCodes": ["UNAVAILABLE"]})"));
  EXPECT_EQ(method.at("name"), nlohmann::json::parse(R"([
    {"service": "attention.v1.AttentionService", "method": "Attend"},
    {"service": "attention.v1.WeightService", "method": "ListWeightSets"},
    {"service": "attention.v1.WeightService", "method": "GetWeightSet"},
    {"service": "grpc.health.v1.Health", "method": "Check"}])"));
}

TEST(ClientChannelTest, ServiceConfigIsEmptyForOneAttempt) { EXPECT_EQ(ServiceConfigJson({.max_attempts = 1}), "{}"); }

}  // namespace
}  // namespace attention
