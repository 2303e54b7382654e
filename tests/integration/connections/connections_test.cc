// What the server does to connections: how many, for how long, and what they may send.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <memory>
#include <string>
#include <vector>

#include "attention/v1/attention.grpc.pb.h"
#include "server/connections/connection_options.h"
#include "tests/testing/matchers.h"
#include "tests/testing/server/raw_call.h"
#include "tests/testing/server/raw_connection.h"
#include "tests/testing/server/requests.h"
#include "tests/testing/server/running_server.h"
#include "tests/testing/server/wire.h"

namespace attention::test {
namespace {

using absl::StatusCode;
using ::testing::HasSubstr;

constexpr uint8_t kPing = 6;
constexpr uint8_t kGoAway = 7;

class ConnectionsTest : public ::testing::Test {
 protected:
  void Start(const server::Config& config = {}) {
    auto running =
        RunningServer::Start({.checkpoints = {{"ones", ToParameters(OnesLayer())}}, .config = config, .gate = &gate_});
    ASSERT_THAT(running, IsOk());
    running_ = *std::move(running);
  }

  void TearDown() override { gate_.Open(); }

  absl::Status Attend(grpc::ClientContext& context, const v1::AttendRequest& request) {
    v1::AttendResponse response;
    return ToAbsl(running_->raw().attention->Attend(&context, request, &response));
  }

  absl::Status AttendWithMetadata(size_t bytes) {
    grpc::ClientContext context;
    context.AddMetadata("x", std::string(bytes - 1, 'v'));
    return Attend(context, QuestionRequest("ones"));
  }

  Gate gate_;
  std::unique_ptr<RunningServer> running_;
};

class CompressionTest : public ConnectionsTest, public ::testing::WithParamInterface<grpc_compression_algorithm> {};

// 64 MiB of zeros are 64 KiB on the wire.
TEST_P(CompressionTest, IsRefusedWithoutDecompressing) {
  ASSERT_NO_FATAL_FAILURE(Start());
  v1::AttendRequest request = QuestionRequest("ones");
  *request.mutable_inputs_q() = WireTensor(v1::DATA_TYPE_FLOAT32, {1, 1 << 22, 4}, std::string(64 << 20, '\0'));
  grpc::ClientContext context;
  context.set_compression_algorithm(GetParam());
  EXPECT_THAT(Attend(context, request),
              StatusIs(StatusCode::kUnimplemented, ::testing::MatchesRegex("Compression algorithm '.*' is disabled.")));
  EXPECT_EQ(gate_.batches(), 0);
  EXPECT_THAT(running_->AttendRaw(QuestionRequest("ones")), IsOk());
}

INSTANTIATE_TEST_SUITE_P(Algorithms, CompressionTest, ::testing::Values(GRPC_COMPRESS_GZIP, GRPC_COMPRESS_DEFLATE),
                         [](const auto& info) { return info.param == GRPC_COMPRESS_GZIP ? "Gzip" : "Deflate"; });

TEST_F(ConnectionsTest, RefusesMuchMetadataForOneCallOnly) {
  ASSERT_NO_FATAL_FAILURE(Start());
  gate_.Close();
  RawCall held(*running_->raw().attention, QuestionRequest("ones"), RawCall::Options());
  gate_.AwaitHeld();
  for (const size_t bytes : {size_t{20000}, size_t{100000}}) {
    EXPECT_THAT(AttendWithMetadata(bytes),
                StatusIs(StatusCode::kResourceExhausted, HasSubstr("metadata: expected at most 16384 bytes, got ")));
  }
  gate_.Open();
  EXPECT_THAT(held.Await(), IsOk());
}

TEST_F(ConnectionsTest, AcceptsOrdinaryMetadata) {
  ASSERT_NO_FATAL_FAILURE(Start());
  for (const size_t bytes : {1000, 7000, 9000, 16000}) EXPECT_THAT(AttendWithMetadata(bytes), IsOk()) << bytes;
}

// gRPC's quota leaves room for the largest messages that are in progress at the same time.
TEST_F(ConnectionsTest, ReceivesTheLargestMessagesWithinItsMemory) {
  constexpr int64_t kMiB = int64_t{1} << 20;
  server::Config config;
  config.max_message_bytes = 64 * kMiB;
  config.max_inflight_bytes = 128 * kMiB;
  ASSERT_NO_FATAL_FAILURE(Start(config));
  v1::AttendRequest request;
  request.set_weight_set("no-such-set");
  request.mutable_inputs_q()->set_data(std::string(64 * kMiB - 1024, '\0'));
  for (int round = 0; round < 3; ++round) {
    std::vector<std::unique_ptr<RawCall>> calls;
    for (int i = 0; i < 2; ++i) {
      calls.push_back(std::make_unique<RawCall>(*running_->raw().attention, request, RawCall::Options()));
    }
    for (const auto& call : calls) EXPECT_THAT(call->Await(), StatusIs(StatusCode::kNotFound, ::testing::_));
  }
}

TEST_F(ConnectionsTest, ClosesConnectionsAboveTheLimitAtOnce) {
  server::Config config;
  config.max_connections = 1;
  ASSERT_NO_FATAL_FAILURE(Start(config));
  ASSERT_THAT(running_->AttendRaw(QuestionRequest("ones")), IsOk());
  RawConnection second(running_->address());
  ASSERT_TRUE(second.connected());
  EXPECT_EQ(second.ReadToEnd(), "");
  EXPECT_THAT(running_->AttendRaw(QuestionRequest("ones")), IsOk());
}

TEST_F(ConnectionsTest, ClosesAnOldConnection) {
  server::Config config;
  config.max_connection_age = absl::Milliseconds(100);
  config.grace = absl::Milliseconds(100);
  ASSERT_NO_FATAL_FAILURE(Start(config));
  RawConnection connection(running_->address());
  connection.SendPreface();
  EXPECT_GE(CountFrames(connection.ReadToEnd(), kGoAway), 1);
}

TEST(ConnectionOptionsTest, PingAndCloseASilentConnection) {
  grpc::ServerBuilder builder;
  server::SetConnectionOptions(
      {.keepalive_time = absl::Milliseconds(100), .keepalive_timeout = absl::Milliseconds(100)}, builder);
  int port = 0;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
  v1::AttentionService::CallbackService service;
  builder.RegisterService(&service);
  const std::unique_ptr<grpc::Server> grpc_server = builder.BuildAndStart();
  ASSERT_NE(grpc_server, nullptr);
  RawConnection connection("127.0.0.1:" + std::to_string(port));
  connection.SendPreface();
  EXPECT_GE(CountFrames(connection.ReadToEnd(), kPing), 1);
}

server::Config Listening(std::string address) {
  server::Config config;
  config.listen = {std::move(address)};
  config.threads = 1;
  return config;
}

TEST(UnixModeTest, IsThatOfTheSocket) {
  const TemporaryFolder folder;
  const std::string path = (folder.path() / "socket").string();
  for (const int mode : {0600, 0660, 0666}) {
    server::Config config = Listening("unix:" + path);
    config.unix_mode = mode;
    const auto server = server::Server::Start(config);
    ASSERT_THAT(server, IsOk());
    struct stat file;
    ASSERT_EQ(stat(path.c_str(), &file), 0);
    EXPECT_EQ(file.st_mode & 0777, static_cast<mode_t>(mode));
  }
}

class AllAddressesTest : public ::testing::TestWithParam<const char*> {};

TEST_P(AllAddressesTest, AreIPv4AndIPv6) {
  const auto server = server::Server::Start(Listening(GetParam()));
  ASSERT_THAT(server, IsOk());
  const std::string bound = (*server)->addresses().front();
  const std::string port = bound.substr(bound.rfind(':'));
  const bool has_ipv6 = server::Server::Start(Listening("[::1]:0")).ok();
  for (const std::string& host :
       has_ipv6 ? std::vector<std::string>{"127.0.0.1", "[::1]"} : std::vector<std::string>{"127.0.0.1"}) {
    const auto client = Client::Connect(host + port, {});
    ASSERT_THAT(client, IsOk());
    EXPECT_THAT(client->WaitUntilReady(std::chrono::seconds(30)), IsOk()) << host;
  }
}

INSTANTIATE_TEST_SUITE_P(Wildcards, AllAddressesTest, ::testing::Values("0.0.0.0:0", "[::]:0"),
                         [](const auto& info) { return info.index == 0 ? "IPv4" : "IPv6"; });

}  // namespace
}  // namespace attention::test
