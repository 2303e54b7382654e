#include <gmock/gmock.h>

#include <set>

#include "tests/integration/client/fake_attention_server.h"
#include "tests/testing/matchers.h"

namespace attention::test {
namespace {

using std::chrono_literals::operator""ms;
using std::chrono_literals::operator""ns;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A target without a server.
constexpr char kNoServer[] = "unix:/nonexistent/attention.sock";

using ClientTest = FakeServerTest;

TEST_F(ClientTest, SendsTheRequestAndReturnsTheReply) {
  v1::AttendRequest received;
  server_.attention.on_attend = [&](int, auto&, const v1::AttendRequest& request, v1::AttendResponse& response) {
    received = request;
    response.set_weight_set("demo");
    response.set_version(3);
    return grpc::Status::OK;
  };
  const auto reply = server_.Connect().Attend(SmallRequest("one"));
  ASSERT_THAT(reply, IsOk());
  EXPECT_EQ(received.request_id(), "one");
  EXPECT_THAT(received.inputs_q().shape(), ElementsAre(1, 2));
  EXPECT_EQ(reply->weight_set, "demo");
  EXPECT_EQ(reply->version, 3);
  EXPECT_THAT(reply->output.Floats(), ElementsAre(1.0f));
}

TEST_F(ClientTest, KeepsCodeAndTextOfEveryError) {
  const Client client = server_.Connect({.max_attempts = 1});
  for (int code = 1; code <= 16; ++code) {
    AnswerWith({static_cast<grpc::StatusCode>(code), absl::StrCat("text ", code)});
    EXPECT_THAT(client.Attend(SmallRequest()),
                StatusIs(static_cast<absl::StatusCode>(code), absl::StrCat("text ", code)));
  }
}

TEST_F(ClientTest, RetriesAnUnavailableCallUntilItSucceeds) {
  FailFirst(2);
  EXPECT_THAT(server_.Connect().Attend(SmallRequest()), IsOk());
  EXPECT_EQ(calls(), 3);
}

TEST_F(ClientTest, RetriesAsynchronousCalls) {
  FailFirst(2);
  EXPECT_THAT(server_.Connect().AttendFuture(SmallRequest()).get(), IsOk());
  EXPECT_EQ(calls(), 3);
}

TEST_F(ClientTest, ReturnsTheLastErrorAfterMaxAttempts) {
  FailFirst(100);
  EXPECT_THAT(server_.Connect({.max_attempts = 3}).Attend(SmallRequest()),
              StatusIs(absl::StatusCode::kUnavailable, "full 3"));
  EXPECT_EQ(calls(), 3);
}

TEST_F(ClientTest, RetriesRequestsLargerThanGrpcsDefaultBuffer) {
  FailFirst(2);
  const std::vector<float> numbers(2 << 20);
  const int64_t shape[] = {2 << 20};
  EXPECT_THAT(server_.Connect().Attend({.inputs_q = Float32(numbers, shape)}), IsOk());
  EXPECT_EQ(calls(), 3);
}

TEST_F(ClientTest, RetriesNoOtherError) {
  const Client client = server_.Connect();
  AnswerWith({grpc::StatusCode::INVALID_ARGUMENT, "wrong"});
  EXPECT_THAT(client.Attend(SmallRequest()), StatusIs(absl::StatusCode::kInvalidArgument, "wrong"));
  AnswerWith({grpc::StatusCode::RESOURCE_EXHAUSTED, "large"});
  EXPECT_THAT(client.Attend(SmallRequest()), StatusIs(absl::StatusCode::kResourceExhausted, "large"));
  EXPECT_EQ(calls(), 2);
}

TEST_F(ClientTest, RetriesOnlyWeightCallsThatChangeNothing) {
  server_.weights.status = {grpc::StatusCode::UNAVAILABLE, "stopping"};
  const Client client = server_.Connect({.max_attempts = 3});
  const auto stopping = StatusIs(absl::StatusCode::kUnavailable, "stopping");
  EXPECT_THAT(client.ListWeightSets(), stopping);
  EXPECT_EQ(server_.weights.calls.exchange(0), 3);
  EXPECT_THAT(client.GetWeightSet("demo"), stopping);
  EXPECT_EQ(server_.weights.calls.exchange(0), 3);
  EXPECT_THAT(client.LoadCheckpoint("demo"), stopping);
  EXPECT_EQ(server_.weights.calls.exchange(0), 1);
  EXPECT_THAT(client.Unload("demo"), stopping);
  EXPECT_EQ(server_.weights.calls.exchange(0), 1);
  EXPECT_THAT(client.Delete("demo"), stopping);
  EXPECT_EQ(server_.weights.calls.exchange(0), 1);
  EXPECT_THAT(client.SetAlias({.checkpoint = "demo", .alias = "stable", .version = 1}), stopping);
  EXPECT_EQ(server_.weights.calls.exchange(0), 1);
}

TEST_F(ClientTest, EndsAtItsDeadline) {
  AnswerOnceReleased();
  const Client client = server_.Connect();
  for (const std::chrono::nanoseconds timeout :
       {std::chrono::nanoseconds(20ms), 0ns, std::chrono::nanoseconds::min()}) {
    EXPECT_EQ(client.Attend(SmallRequest(), {.timeout = timeout}).status().code(), absl::StatusCode::kDeadlineExceeded);
    EXPECT_EQ(client.AttendFuture(SmallRequest(), {.timeout = timeout}).get().status().code(),
              absl::StatusCode::kDeadlineExceeded);
  }
  release_.Notify();
}

TEST_F(ClientTest, AcceptsTheLongestTimeout) {
  AnswerWith(grpc::Status::OK);
  EXPECT_THAT(server_.Connect().Attend(SmallRequest(), {.timeout = std::chrono::nanoseconds::max()}), IsOk());
}

TEST_F(ClientTest, RefusesAnInvalidRequestWithoutCallingTheServer) {
  static const char byte = 0;
  const int64_t two_gibibytes[] = {1, 268435456, 2};
  const AttendRequest large{.inputs_q = {DataType::kFloat32, two_gibibytes, {&byte, size_t{1} << 31}}};
  const AttendRequest short_of_bytes{.inputs_q = {DataType::kFloat32, two_gibibytes, {&byte, 1}}};
  const Client client = server_.Connect();
  const std::string message = "inputs_q: expected at most 2147483647 bytes (max_message_bytes), got 2147483648";
  EXPECT_THAT(client.Attend(large), StatusIs(absl::StatusCode::kResourceExhausted, message));
  EXPECT_THAT(client.AttendFuture(large).get(), StatusIs(absl::StatusCode::kResourceExhausted, message));
  EXPECT_EQ(client.Attend(short_of_bytes).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(calls(), 0);
}

TEST_F(ClientTest, RefusesAReplyAboveTheLimit) {
  server_.attention.on_attend = [](int, auto&, auto&, v1::AttendResponse& response) {
    response.set_request_id(std::string(2000, 'x'));
    return grpc::Status::OK;
  };
  EXPECT_EQ(server_.Connect({.max_message_bytes = 1000}).Attend(SmallRequest()).status().code(),
            absl::StatusCode::kResourceExhausted);
}

TEST_F(ClientTest, AcceptsRepliesAboveGrpcsDefaultLimit) {
  server_.attention.on_attend = [](int, auto&, auto&, v1::AttendResponse& response) {
    response.set_request_id(std::string(5 << 20, 'x'));
    return grpc::Status::OK;
  };
  const auto reply = server_.Connect().Attend(SmallRequest());
  ASSERT_THAT(reply, IsOk());
  EXPECT_EQ(reply->request_id.size(), size_t{5} << 20);
}

TEST_F(ClientTest, RefusesAMalformedReply) {
  server_.attention.on_attend = [](int, auto&, auto&, v1::AttendResponse& response) {
    response.clear_output();
    return grpc::Status::OK;
  };
  EXPECT_THAT(server_.Connect().Attend(SmallRequest()),
              StatusIs(absl::StatusCode::kInternal, "reply.output.dtype: expected a known data type, got 0"));
}

TEST_F(ClientTest, SharesAConnectionAmongCopiesOnly) {
  std::set<std::string> peers;
  server_.attention.on_attend = [&](int, grpc::ServerContext& context, auto&, auto&) {
    peers.insert(context.peer());
    return grpc::Status::OK;
  };
  const Client client = server_.Connect();
  const Client copy = client;
  EXPECT_THAT(client.Attend(SmallRequest()), IsOk());
  EXPECT_THAT(copy.Attend(SmallRequest()), IsOk());
  EXPECT_EQ(peers.size(), 1u);
  EXPECT_THAT(server_.Connect().Attend(SmallRequest()), IsOk());
  EXPECT_EQ(peers.size(), 2u);
}

TEST_F(ClientTest, AlternatesAmongAllAddresses) {
  FakeAttentionServer other;
  AnswerWith(grpc::Status::OK);
  other.attention.on_attend = server_.attention.on_attend;
  const auto client = Client::Connect(absl::StrCat("ipv4:", server_.address(), ",", other.address()));
  // Until both are connected, all calls use the first connection.
  for (int i = 0; i < 100000 && (calls() == 0 || other.attention.calls == 0); ++i) {
    ASSERT_THAT(client->Attend(SmallRequest()), IsOk());
  }
  const int before = calls();
  const int other_before = other.attention.calls;
  for (int i = 0; i < 10; ++i) ASSERT_THAT(client->Attend(SmallRequest()), IsOk());
  EXPECT_EQ(calls() - before, 5);
  EXPECT_EQ(other.attention.calls - other_before, 5);
}

TEST_F(ClientTest, HealthIsOkOnlyIfTheServerServes) {
  const Client client = server_.Connect();
  EXPECT_THAT(client.CheckHealth(), IsOk());
  EXPECT_THAT(client.CheckHealth("unknown"), StatusIs(absl::StatusCode::kNotFound, "unknown service"));
  server_.health.status = grpc::health::v1::HealthCheckResponse::NOT_SERVING;
  EXPECT_THAT(client.CheckHealth(),
              StatusIs(absl::StatusCode::kUnavailable, server_.address() + ": the server is NOT_SERVING"));
  EXPECT_THAT(client.CheckHealth("attention.v1.AttentionService"),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("attention.v1.AttentionService is NOT_SERVING")));
}

TEST_F(ClientTest, WaitsUntilTheServerIsReady) {
  EXPECT_THAT(server_.Connect().WaitUntilReady(std::chrono::seconds(60)), IsOk());
  EXPECT_THAT(
      Client::Connect(kNoServer)->WaitUntilReady(20ms),
      StatusIs(absl::StatusCode::kDeadlineExceeded, absl::StrCat(kNoServer, ": no server answered within 20 ms")));
}

TEST_F(ClientTest, FailsWithoutAServer) {
  const auto client = Client::Connect(kNoServer, {.max_attempts = 1});
  EXPECT_EQ(client->Attend(SmallRequest()).status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(client->AttendFuture(SmallRequest()).get().status().code(), absl::StatusCode::kUnavailable);
}

TEST_F(ClientTest, ConnectRefusesInvalidArguments) {
  EXPECT_THAT(Client::Connect(""),
              StatusIs(absl::StatusCode::kInvalidArgument, "target: expected an address, got \"\""));
  EXPECT_THAT(Client::Connect(kNoServer, {.max_attempts = 9}),
              StatusIs(absl::StatusCode::kInvalidArgument, "max_attempts: expected 1 to 5, got 9"));
}

}  // namespace
}  // namespace attention::test
