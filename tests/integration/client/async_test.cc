#include <gmock/gmock.h>

#include <future>
#include <iterator>
#include <thread>

#include "tests/integration/client/fake_attention_server.h"
#include "tests/testing/matchers.h"

namespace attention::test {
namespace {

using std::chrono_literals::operator""ns;

using ClientAsyncTest = FakeServerTest;

TEST_F(ClientAsyncTest, RunsDoneOnceForEveryOutcome) {
  const float number = 1;
  const int64_t wrong_shape[] = {2};
  const AttendRequest refused{.inputs_q = Float32({&number, 1}, wrong_shape)};
  server_.attention.on_attend = [this](int, auto&, const v1::AttendRequest& request, auto&) {
    if (request.request_id() == "bad") return grpc::Status(grpc::StatusCode::NOT_FOUND, "none");
    if (request.request_id() == "slow") release_.WaitForNotification();
    return grpc::Status::OK;
  };
  struct Case {
    AttendRequest request;
    CallOptions options;
    absl::StatusCode expected;
  };
  const Case cases[] = {
      {SmallRequest(), {}, absl::StatusCode::kOk},
      {SmallRequest("bad"), {}, absl::StatusCode::kNotFound},
      {refused, {}, absl::StatusCode::kInvalidArgument},
      {SmallRequest("slow"), {.timeout = 0ns}, absl::StatusCode::kDeadlineExceeded},
  };
  std::atomic<int> runs[std::size(cases)] = {};
  for (size_t i = 0; i < std::size(cases); ++i) {
    SCOPED_TRACE(i);
    std::promise<std::pair<absl::StatusCode, std::thread::id>> ended;
    server_.Connect().AttendAsync(
        cases[i].request,
        [&ended, &run = runs[i]](const absl::StatusOr<AttendReply>& reply) {
          if (++run == 1) ended.set_value({reply.status().code(), std::this_thread::get_id()});
        },
        cases[i].options);
    const auto [code, thread] = ended.get_future().get();
    EXPECT_EQ(code, cases[i].expected);
    EXPECT_NE(thread, std::this_thread::get_id());
  }
  release_.Notify();
  for (const std::atomic<int>& run : runs) EXPECT_EQ(run, 1);
}

TEST_F(ClientAsyncTest, OutlivesClientAndRequest) {
  v1::AttendRequest received;
  server_.attention.on_attend = [&](int, auto&, const v1::AttendRequest& request, auto&) {
    release_.WaitForNotification();
    received = request;
    return grpc::Status::OK;
  };
  std::future<absl::StatusOr<AttendReply>> reply;
  {
    const std::vector<float> numbers = {7, 8};
    const std::vector<int64_t> shape = {2};
    reply = server_.Connect().AttendFuture({.inputs_q = Float32(numbers, shape)});
  }
  release_.Notify();
  EXPECT_THAT(reply.get(), IsOk());
  const float expected[] = {7, 8};
  EXPECT_EQ(received.inputs_q().data(), std::string(reinterpret_cast<const char*>(expected), sizeof(expected)));
}

TEST_F(ClientAsyncTest, DoneMayDestroyTheLastClient) {
  AnswerWith(grpc::Status::OK);
  auto last = std::make_unique<Client>(server_.Connect());
  const Client& client = *last;
  std::promise<void> ended;
  client.AttendAsync(SmallRequest(), [&ended, &last](const absl::StatusOr<AttendReply>&) {
    last.reset();
    ended.set_value();
  });
  ended.get_future().wait();
  EXPECT_EQ(last, nullptr);
}

}  // namespace
}  // namespace attention::test
