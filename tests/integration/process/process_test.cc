// The server program, run as a child process.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <optional>

#include "absl/time/clock.h"
#include "client/attention_client.h"
#include "tests/testing/files/temporary_folder.h"
#include "tests/testing/files/weights.h"
#include "tests/testing/matchers.h"
#include "tests/testing/server/child_process.h"
#include "tests/testing/server/requests.h"
#include "tests/testing/server/wire.h"

namespace attention::test {
namespace {

// A child that serves OnesLayer, and a client of it.
struct ServingChild {
  ServingChild() {
    folder.Write("weights/ones.safetensors", Serialize(ToParameters(OnesLayer())));
    const std::string address = "unix:" + (folder.path() / "socket").string();
    child.emplace(std::vector<std::string>{ATTENTION_SERVER, "--listen", address, "--weights-dir",
                                           (folder.path() / "weights").string(), "--log-level", "error"});
    client = Client::Connect(address);
  }

  TemporaryFolder folder;
  std::optional<ChildProcess> child;
  absl::StatusOr<Client> client;
};

class ProcessTest : public ::testing::TestWithParam<int> {};

TEST_P(ProcessTest, ServesAndExitsWithZeroOnASignal) {
  ServingChild serving;
  auto& [folder, child, client] = serving;
  ASSERT_TRUE(child->started());
  ASSERT_THAT(client, IsOk());
  ASSERT_THAT(client->WaitUntilReady(std::chrono::seconds(60)), IsOk());
  const auto reply = client->Attend(ClientRequest(QuestionRequest("ones")));
  ASSERT_THAT(reply, IsOk());
  EXPECT_THAT(reply->output, Near(QuestionAnswer()));
  child->Signal(GetParam());
  EXPECT_EQ(child->Await(), 0);
}

INSTANTIATE_TEST_SUITE_P(Signals, ProcessTest, ::testing::Values(SIGTERM, SIGINT),
                         [](const auto& info) { return info.param == SIGTERM ? "Sigterm" : "Sigint"; });

// gRPC can wait up to ten seconds for a sleeping thread when it shuts down, mostly after large messages.
TEST(ProcessStopTest, ExitsAtOnceAfterLargeMessages) {
  v1::AttendRequest request;
  request.set_weight_set("ones");
  *request.mutable_inputs_q() = WireFloats({100000, 4, 3}, std::vector<float>(1200000));
  for (int round = 0; round < 5; ++round) {
    ServingChild serving;
    ASSERT_TRUE(serving.child->started());
    ASSERT_THAT(serving.client, IsOk());
    ASSERT_THAT(serving.client->WaitUntilReady(std::chrono::seconds(60)), IsOk());
    ASSERT_THAT(serving.client->Attend(ClientRequest(request)), IsOk());
    const absl::Time signalled = absl::Now();
    serving.child->Signal(SIGTERM);
    EXPECT_EQ(serving.child->Await(), 0);
    ASSERT_LT(absl::Now() - signalled, absl::Seconds(5));
  }
}

TEST(ProcessFlagsTest, RejectsAnUnknownFlag) {
  ChildProcess child({ATTENTION_SERVER, "--no-such-flag"});
  ASSERT_TRUE(child.started());
  EXPECT_GT(child.Await(), 0);
}

TEST(ProcessFlagsTest, RejectsAMissingWeightsFolder) {
  TemporaryFolder folder;
  ChildProcess child({ATTENTION_SERVER, "--listen", "127.0.0.1:0", "--weights-dir",
                      (folder.path() / "missing").string(), "--log-level", "off"});
  ASSERT_TRUE(child.started());
  EXPECT_GT(child.Await(), 0);
}

}  // namespace
}  // namespace attention::test
