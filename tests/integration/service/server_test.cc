#include "server/server.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <string>
#include <utility>

#include "client/attention_client.h"
#include "tests/testing/files/temporary_folder.h"
#include "tests/testing/matchers.h"
#include "tests/testing/server/gate.h"
#include "tests/testing/server/requests.h"
#include "tests/testing/server/running_server.h"
#include "tests/testing/server/wire.h"

namespace attention::test {
namespace {

using ::testing::HasSubstr;
using ::testing::MatchesRegex;

server::Config Listening(std::vector<std::string> addresses) {
  server::Config config;
  config.listen = std::move(addresses);
  config.threads = 1;
  return config;
}

// Creates a socket file on which no process listens.
void LeaveSocketBehind(const std::string& path) {
  const int fd = socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un name = {};
  name.sun_family = AF_UNIX;
  std::strncpy(name.sun_path, path.c_str(), sizeof(name.sun_path) - 1);
  ASSERT_EQ(bind(fd, reinterpret_cast<const sockaddr*>(&name), sizeof(name)), 0);
  close(fd);
}

class ServerTest : public ::testing::Test {
 protected:
  std::string SocketPath() const { return (folder_.path() / "a.sock").string(); }
  std::string SocketAddress() const { return "unix:" + SocketPath(); }

  TemporaryFolder folder_;
};

TEST_F(ServerTest, ListensOnEveryAddress) {
  const auto server = server::Server::Start(Listening({"127.0.0.1:0", SocketAddress(), "[::1]:0"}));
  if (absl::IsUnavailable(server.status())) GTEST_SKIP() << "no IPv6: " << server.status();
  ASSERT_THAT(server, IsOk());
  const auto& addresses = (*server)->addresses();
  ASSERT_EQ(addresses.size(), 3u);
  EXPECT_THAT(addresses[0], MatchesRegex("127\\.0\\.0\\.1:[1-9][0-9]*"));
  EXPECT_EQ(addresses[1], SocketAddress());
  EXPECT_THAT(addresses[2], MatchesRegex("\\[::1\\]:[1-9][0-9]*"));
  for (const std::string& address : addresses) {
    const auto client = Client::Connect(address, {});
    ASSERT_THAT(client, IsOk());
    EXPECT_THAT(client->WaitUntilReady(std::chrono::seconds(30)), IsOk()) << address;
  }
}

TEST_F(ServerTest, RejectsAPortInUse) {
  const auto first = server::Server::Start(Listening({"127.0.0.1:0"}));
  ASSERT_THAT(first, IsOk());
  const std::string address = (*first)->addresses()[0];
  EXPECT_THAT(
      server::Server::Start(Listening({address})),
      StatusIs(absl::StatusCode::kUnavailable, "--listen: cannot listen on " + address + ": Address already in use"));
}

TEST_F(ServerTest, RejectsASocketInUse) {
  const auto first = server::Server::Start(Listening({SocketAddress()}));
  ASSERT_THAT(first, IsOk());
  EXPECT_THAT(server::Server::Start(Listening({SocketAddress()})),
              StatusIs(absl::StatusCode::kUnavailable,
                       "--listen: cannot listen on " + SocketAddress() + ": Address already in use"));
  const auto client = Client::Connect(SocketAddress(), {});
  ASSERT_THAT(client, IsOk());
  EXPECT_THAT(client->WaitUntilReady(std::chrono::seconds(30)), IsOk()) << "the first server still serves";
}

TEST_F(ServerTest, ReplacesAnUnusedSocketFile) {
  ASSERT_NO_FATAL_FAILURE(LeaveSocketBehind(SocketPath()));
  EXPECT_THAT(server::Server::Start(Listening({SocketAddress()})), IsOk());
}

TEST_F(ServerTest, RemovesItsSocketFileWhenItStops) {
  const auto server = server::Server::Start(Listening({SocketAddress()}));
  ASSERT_THAT(server, IsOk());
  EXPECT_TRUE(std::filesystem::exists(SocketPath()));
  (*server)->Stop();
  EXPECT_FALSE(std::filesystem::exists(SocketPath()));
}

TEST_F(ServerTest, KeepsAFileThatIsNotASocket) {
  folder_.Write("a.sock", "precious");
  EXPECT_THAT(server::Server::Start(Listening({SocketAddress()})),
              StatusIs(absl::StatusCode::kUnavailable,
                       "--listen: cannot listen on " + SocketAddress() + ": the file exists and is not a socket"));
  EXPECT_EQ(std::filesystem::file_size(SocketPath()), 8u);
}

TEST_F(ServerTest, ReportsWhyItCannotListen) {
  const std::string nowhere = "unix:" + (folder_.path() / "no" / "a.sock").string();
  EXPECT_THAT(server::Server::Start(Listening({nowhere})),
              StatusIs(absl::StatusCode::kUnavailable,
                       "--listen: cannot listen on " + nowhere + ": No such file or directory"));
  EXPECT_THAT(server::Server::Start(Listening({"192.0.2.1:0"})),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("--listen: cannot listen on 192.0.2.1:0: ")));
}

TEST_F(ServerTest, RejectsAContradictoryConfig) {
  server::Config config = Listening({"127.0.0.1:0"});
  config.max_inflight_bytes = 1;
  EXPECT_THAT(server::Server::Start(config),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       "--max-inflight-bytes: expected at least --max-message-bytes 268435456, got 1"));
}

TEST_F(ServerTest, DoesNotStartWithoutItsWeightsFolder) {
  server::Config config = Listening({"127.0.0.1:0"});
  config.weights_dir = (folder_.path() / "missing").string();
  EXPECT_THAT(server::Server::Start(config), StatusIs(absl::StatusCode::kNotFound, HasSubstr("missing")));
}

class ServerCallTest : public ::testing::Test {
 protected:
  void SetUp() override {
    server::Config config;
    config.max_message_bytes = 1 << 20;
    auto running =
        RunningServer::Start({.checkpoints = {{"ones", ToParameters(OnesLayer())}}, .config = config, .gate = &gate_});
    ASSERT_THAT(running, IsOk());
    running_ = *std::move(running);
  }

  void TearDown() override { gate_.Open(); }

  v1::AttendRequest Zeros(const std::vector<int64_t>& shape, int64_t bytes) {
    v1::AttendRequest request;
    request.set_weight_set("ones");
    *request.mutable_inputs_q() = WireTensor(v1::DATA_TYPE_FLOAT32, shape, std::string(bytes, '\0'));
    return request;
  }

  Gate gate_;
  std::unique_ptr<RunningServer> running_;
};

TEST_F(ServerCallTest, AnswersAnEmptyRequestWithoutTheQueue) {
  gate_.Close();
  v1::AttendRequest request = Zeros({int64_t{1} << 40, 0, 3}, 0);
  request.set_request_id("empty");
  request.mutable_options()->set_return_intermediates(true);
  const auto reply = running_->AttendRaw(request);
  ASSERT_THAT(reply, IsOk());
  EXPECT_THAT(reply->output().shape(), ::testing::ElementsAre(int64_t{1} << 40, 0, 4));
  EXPECT_EQ(reply->output().dtype(), v1::DATA_TYPE_FLOAT32);
  EXPECT_EQ(reply->output().data(), "");
  EXPECT_THAT(reply->attn_weights().shape(), ::testing::ElementsAre(int64_t{1} << 40, 1, 0, 0));
  EXPECT_EQ(reply->weight_set(), "ones");
  EXPECT_EQ(reply->version(), 1);
  EXPECT_EQ(reply->request_id(), "empty");
  EXPECT_EQ(gate_.batches(), 0);
}

TEST_F(ServerCallTest, RejectsAReplyAboveTheLimitBeforeComputing) {
  v1::AttendRequest request = Zeros({1, 1000, 3}, 12000);
  request.mutable_options()->set_return_attn_weights(true);
  EXPECT_THAT(running_->AttendRaw(request),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       "reply: expected at most 1048576 bytes (--max-message-bytes), got 4018048"));
  EXPECT_EQ(gate_.batches(), 0);
}

TEST_F(ServerCallTest, RejectsARequestAboveTheLimitAndServesTheNext) {
  EXPECT_THAT(running_->AttendRaw(Zeros({1, 1 << 17, 3}, 3 << 19)),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("1048576")));
  const auto reply = running_->AttendRaw(QuestionRequest("ones"));
  ASSERT_THAT(reply, IsOk());
  EXPECT_THAT(ClientTensor(reply->output()), Near(QuestionAnswer()));
}

TEST_F(ServerCallTest, ReportsTheTiming) {
  const auto reply = running_->AttendRaw(QuestionRequest("ones"));
  ASSERT_THAT(reply, IsOk());
  EXPECT_EQ(reply->timing().batch_requests(), 1);
  EXPECT_EQ(reply->timing().batch_tokens(), 4);
  EXPECT_EQ(reply->timing().batch_close_reason(), v1::BATCH_CLOSE_REASON_QUEUE_DRAINED);
  EXPECT_GT(reply->timing().compute_time_ns(), 0);
}

}  // namespace
}  // namespace attention::test
