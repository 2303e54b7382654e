// What signals, and the reader of the log, do to the server's program.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/attention_client.h"
#include "tests/testing/files/temporary_folder.h"
#include "tests/testing/files/weights.h"
#include "tests/testing/matchers.h"
#include "tests/testing/server/child_log.h"
#include "tests/testing/server/child_process.h"
#include "tests/testing/server/raw_connection.h"
#include "tests/testing/server/requests.h"
#include "tests/testing/server/wire.h"

namespace attention::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kStarting[] = "starting with";
constexpr char kListening[] = "is listening on ";

class SignalsTest : public ::testing::Test {
 protected:
  SignalsTest() { WriteCheckpoints(1); }

  // "layer0", "layer1", …
  void WriteCheckpoints(int count) {
    for (int i = 0; i < count; ++i) {
      folder_.Write(absl::StrCat("weights/layer", i, ".safetensors"), Serialize(ToParameters(OnesLayer())));
    }
  }

  // Starts the program, by another one that is given with its arguments if any.
  void Start(std::vector<std::string> command = {}) {
    const std::vector<std::string> arguments = {ATTENTION_SERVER, "--listen",    "127.0.0.1:0", "--weights-dir",
                                                weights(),        "--log-level", "debug"};
    command.insert(command.end(), arguments.begin(), arguments.end());
    child_.emplace(command, log_.writer());
    log_.CloseWriter();
    ASSERT_TRUE(child_->started());
  }

  void AwaitListening() {
    const std::string log = log_.ReadUntil(kListening);
    const size_t at = log.find(kListening);
    ASSERT_NE(at, std::string::npos) << log;
    const size_t begin = at + std::string(kListening).size();
    address_ = log.substr(begin, log.find(';', begin) - begin);
    auto client = Client::Connect(address_);
    ASSERT_THAT(client, IsOk());
    client_.emplace(*std::move(client));
  }

  // Each call is a line of the log.
  void Attend(int calls) {
    for (int i = 0; i < calls; ++i) ASSERT_THAT(client_->Attend(ClientRequest(QuestionRequest("layer0"))), IsOk());
  }

  void ExpectStops() {
    child_->Signal(SIGTERM);
    EXPECT_EQ(child_->Await(), 0);
  }

  std::string weights() const { return (folder_.path() / "weights").string(); }

  const TemporaryFolder folder_;
  ChildLog log_;
  std::optional<ChildProcess> child_;
  std::string address_;
  std::optional<Client> client_;
};

TEST_F(SignalsTest, EndWhileCheckpointsAreLoaded) {
  WriteCheckpoints(300);
  ASSERT_NO_FATAL_FAILURE(Start());
  log_.ReadUntil(kStarting);
  ExpectStops();
  EXPECT_THAT(log_.ReadToEnd(),
              AllOf(HasSubstr("received SIGTERM before the start was complete"), Not(HasSubstr(kListening))));
}

TEST_F(SignalsTest, HangUpWithoutEffect) {
  ASSERT_NO_FATAL_FAILURE(Start());
  ASSERT_NO_FATAL_FAILURE(AwaitListening());
  child_->Signal(SIGHUP);
  log_.ReadUntil("received SIGHUP, which is ignored");
  Attend(1);
  ExpectStops();
}

class LogReaderTest : public SignalsTest {};

TEST_F(LogReaderTest, MayGoAway) {
  ASSERT_NO_FATAL_FAILURE(Start());
  ASSERT_NO_FATAL_FAILURE(AwaitListening());
  log_.CloseReader();
  Attend(3);
  ExpectStops();
}

TEST_F(LogReaderTest, MayStall) {
  ASSERT_NO_FATAL_FAILURE(Start());
  ASSERT_NO_FATAL_FAILURE(AwaitListening());
  Attend(1000);  // a pipe holds some 500 lines
  ExpectStops();
  EXPECT_THAT(log_.ReadToEnd(), HasSubstr("status=OK"));
}

class DescriptorsTest : public SignalsTest {};

TEST_F(DescriptorsTest, AreFreeAgainAfterTooManyConnections) {
  ASSERT_NO_FATAL_FAILURE(Start({"/usr/bin/prlimit", "--nofile=128"}));
  ASSERT_NO_FATAL_FAILURE(AwaitListening());
  {
    std::vector<std::unique_ptr<RawConnection>> connections;
    for (int i = 0; i < 200; ++i) connections.push_back(std::make_unique<RawConnection>(address_));
    EXPECT_EQ(connections.back()->ReadToEnd(), "");
  }
  ASSERT_THAT(client_->WaitUntilReady(std::chrono::seconds(60)), IsOk());
  Attend(1);
  ExpectStops();
}

}  // namespace
}  // namespace attention::test
