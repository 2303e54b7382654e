// Replacing weights under load: each reply is exactly that of one version.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "absl/strings/str_cat.h"
#include "tests/testing/server/requests.h"
#include "tests/testing/server/running_server.h"
#include "tests/testing/server/uploads.h"
#include "tests/testing/server/wire.h"

namespace attention::test {
namespace {

constexpr int kCallers = 16;
constexpr int64_t kReplacements = 200;

// The replies of one caller, and the first error.
struct CallerResult {
  int64_t replies = 0;
  int64_t last_version = 0;
  std::string error;
};

// Sends the question until `stop` and compares each reply with the answer of the version that it names.
CallerResult SendUntil(const std::atomic<bool>& stop, const Client& client) {
  const v1::AttendRequest question = QuestionRequest("w");
  const AttendRequest request = ClientRequest(question);
  CallerResult result;
  while (!stop && result.error.empty()) {
    const auto reply = client.Attend(request);
    if (!reply.ok()) {
      result.error = reply.status().ToString();
    } else if (reply->version < result.last_version) {
      result.error = absl::StrCat("version ", reply->version, " after ", result.last_version);
    } else if (std::string why; !IsNear(reply->output, SquareAnswer(reply->version), why)) {
      result.error = absl::StrCat("version ", reply->version, ": ", why);
    }
    if (result.error.empty()) result.last_version = reply->version;
    ++result.replies;
  }
  return result;
}

// `replace(v)` creates version v, starting with 2.
void ExpectExactAnswersWhileReplacing(const Client& client, const std::function<void(int64_t)>& replace) {
  std::atomic<bool> stop{false};
  std::vector<CallerResult> results(kCallers);
  std::vector<std::thread> callers;
  for (int i = 0; i < kCallers; ++i) callers.emplace_back([&, i] { results[i] = SendUntil(stop, client); });
  for (int64_t version = 2; version <= kReplacements; ++version) replace(version);
  stop = true;
  for (std::thread& caller : callers) caller.join();
  for (const CallerResult& result : results) {
    EXPECT_EQ(result.error, "");
    EXPECT_GT(result.replies, 0);
  }
  EXPECT_EQ(client.GetWeightSet("w")->version, kReplacements);
}

TEST(ReplaceTest, UploadsUnderLoadGiveEveryCallerTheAnswerOfOneVersion) {
  const auto running = RunningServer::Start();
  ASSERT_THAT(running, IsOk());
  const Client& client = (*running)->client();
  ASSERT_THAT(UploadBytes(client, "w", SquareFile(1)), IsOk());
  ExpectExactAnswersWhileReplacing(
      client, [&](int64_t version) { EXPECT_EQ(UploadBytes(client, "w", SquareFile(version))->version, version); });
}

TEST(ReplaceTest, LoadsOfAFileUnderLoadGiveEveryCallerTheAnswerOfOneVersion) {
  const auto running = RunningServer::Start({.checkpoints = {{"w", ToParameters(SquareLayer(1))}}});
  ASSERT_THAT(running, IsOk());
  ExpectExactAnswersWhileReplacing((*running)->client(), [&](int64_t version) {
    EXPECT_THAT((*running)->Load("w", ToParameters(SquareLayer(version))), IsOk());
  });
}

}  // namespace
}  // namespace attention::test
