// Callers see nothing of a replacement but another version.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "absl/strings/str_cat.h"
#include "tests/testing/requests.h"
#include "tests/testing/running_server.h"
#include "tests/testing/uploads.h"
#include "tests/testing/wire.h"

namespace attention::test {
namespace {

constexpr int kCallers = 16;
constexpr int64_t kReplacements = 200;

// Numbers of replies that a caller got, and the first that was not right.
struct Seen {
  int64_t replies = 0;
  int64_t last_version = 0;
  std::string wrong;
};

// Sends the question until `stop`, and holds each reply against the answer of the version that it says it is.
Seen AskUntil(const std::atomic<bool>& stop, const Client& client) {
  const v1::AttendRequest question = QuestionRequest("w");
  const AttendRequest request = ClientRequest(question);
  Seen seen;
  while (!stop && seen.wrong.empty()) {
    const auto reply = client.Attend(request);
    if (!reply.ok()) {
      seen.wrong = reply.status().ToString();
    } else if (reply->version < seen.last_version) {
      seen.wrong = absl::StrCat("version ", reply->version, " after ", seen.last_version);
    } else if (std::string why; !IsNear(reply->output, SquareAnswer(reply->version), why)) {
      seen.wrong = absl::StrCat("version ", reply->version, ": ", why);
    }
    if (seen.wrong.empty()) seen.last_version = reply->version;
    ++seen.replies;
  }
  return seen;
}

// `replace` makes version v, from 2 on.
void ExpectNoCallerNotices(const Client& client, const std::function<void(int64_t)>& replace) {
  std::atomic<bool> stop{false};
  std::vector<Seen> seen(kCallers);
  std::vector<std::thread> callers;
  for (int i = 0; i < kCallers; ++i) callers.emplace_back([&, i] { seen[i] = AskUntil(stop, client); });
  for (int64_t version = 2; version <= kReplacements; ++version) replace(version);
  stop = true;
  for (std::thread& caller : callers) caller.join();
  for (const Seen& one : seen) {
    EXPECT_EQ(one.wrong, "");
    EXPECT_GT(one.replies, 0);
  }
  EXPECT_EQ(client.GetWeightSet("w")->version, kReplacements);
}

TEST(ReplaceTest, ByUploadsUnderLoadGivesEveryCallerOneVersionsExactAnswer) {
  const auto running = RunningServer::Start();
  ASSERT_THAT(running, IsOk());
  const Client& client = (*running)->client();
  ASSERT_THAT(UploadBytes(client, "w", SquareFile(1)), IsOk());
  ExpectNoCallerNotices(
      client, [&](int64_t version) { EXPECT_EQ(UploadBytes(client, "w", SquareFile(version))->version, version); });
}

TEST(ReplaceTest, OfAFileUnderLoadDoesToo) {
  const auto running = RunningServer::Start({.checkpoints = {{"w", ToParameters(SquareLayer(1))}}});
  ASSERT_THAT(running, IsOk());
  ExpectNoCallerNotices((*running)->client(), [&](int64_t version) {
    EXPECT_THAT((*running)->Load("w", ToParameters(SquareLayer(version))), IsOk());
  });
}

}  // namespace
}  // namespace attention::test
