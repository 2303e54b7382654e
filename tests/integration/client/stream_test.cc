#include <gmock/gmock.h>

#include <set>
#include <thread>

#include "absl/synchronization/notification.h"
#include "tests/integration/client/fake_attention_server.h"
#include "tests/testing/matchers.h"

namespace attention::test {
namespace {

using std::chrono_literals::operator""ms;
using ::testing::ElementsAre;
using ::testing::ElementsAreArray;

// Maximum number of requests of a stream without a reply.
constexpr int kWindow = 64;

grpc::Status Echo(ServerStream& stream) {
  v1::AttendRequest request;
  while (stream.Read(&request)) stream.Write(ReplyTo(request.request_id()));
  return grpc::Status::OK;
}

// Reads all requests and answers none.
grpc::Status Swallow(ServerStream& stream) {
  v1::AttendRequest request;
  while (stream.Read(&request)) continue;
  return grpc::Status::OK;
}

class ClientStreamTest : public ::testing::Test {
 protected:
  std::unique_ptr<AttendStream> Open(std::function<grpc::Status(ServerStream&)> answer) {
    server_.attention.on_stream = std::move(answer);
    return server_.Connect().OpenStream();
  }

  // The request_id of each reply up to the end of the stream.
  static std::vector<std::string> ReadAll(AttendStream& stream) {
    std::vector<std::string> ids;
    while (auto item = stream.Read()) ids.push_back(item->request_id);
    return ids;
  }

  // Writes until a write fails and returns its status. Adds the number of successful writes to `written`.
  static absl::Status WriteUntilItFails(AttendStream& stream, int& written) {
    for (;; ++written) {
      if (absl::Status status = stream.Write(SmallRequest()); !status.ok()) return status;
    }
  }

  FakeAttentionServer server_;
};

TEST_F(ClientStreamTest, KeepsTheServersOrderOfReplies) {
  auto stream = Open([](ServerStream& stream) {
    Swallow(stream);
    for (const char* id : {"c", "a", "b"}) stream.Write(ReplyTo(id));
    return grpc::Status::OK;
  });
  for (const char* id : {"a", "b", "c"}) ASSERT_THAT(stream->Write(SmallRequest(id)), IsOk());
  stream->WritesDone();
  EXPECT_THAT(ReadAll(*stream), ElementsAre("c", "a", "b"));
  EXPECT_THAT(stream->Finish(), IsOk());
}

TEST_F(ClientStreamTest, SendsMaskAndOptionsAndReturnsTheOptionalTensors) {
  v1::AttendRequest received;
  auto stream = Open([&](ServerStream& stream) {
    if (!stream.Read(&received)) return grpc::Status::CANCELLED;
    v1::AttendStreamResponse reply = ReplyTo(received.request_id());
    reply.mutable_response()->set_empty_rows(3);
    *reply.mutable_response()->mutable_log_sum_exp() = OneFloat(2);
    stream.Write(reply);
    return grpc::Status::OK;
  });
  AttendRequest request = SmallRequest();
  request.mask.causal = Corner::kBottomRight;
  request.return_log_sum_exp = true;
  ASSERT_THAT(stream->Write(request), IsOk());
  const auto item = stream->Read();
  ASSERT_TRUE(item.has_value());
  ASSERT_THAT(item->reply, IsOk());
  EXPECT_EQ(item->reply->empty_rows, 3);
  EXPECT_THAT(item->reply->log_sum_exp->Floats(), ElementsAre(2.0f));
  EXPECT_THAT(stream->Finish(), IsOk());
  EXPECT_EQ(received.mask().causal().corner(), v1::Diagonal::CORNER_BOTTOM_RIGHT);
  EXPECT_TRUE(received.options().return_log_sum_exp());
}

TEST_F(ClientStreamTest, AnErrorOfOneRequestDoesNotEndTheStream) {
  auto stream = Open([](ServerStream& stream) {
    v1::AttendRequest request;
    while (stream.Read(&request)) {
      v1::AttendStreamResponse reply = ReplyTo(request.request_id());
      if (request.request_id() == "bad") {
        reply.mutable_error()->set_code(grpc::StatusCode::UNAVAILABLE);
        reply.mutable_error()->set_message("queue is full");
        reply.mutable_error()->set_retry_pushback_ms(40);
      }
      stream.Write(reply);
    }
    return grpc::Status::OK;
  });
  for (const char* id : {"good", "bad", "better"}) ASSERT_THAT(stream->Write(SmallRequest(id)), IsOk());
  stream->WritesDone();
  const auto good = stream->Read();
  EXPECT_THAT(good->reply, IsOk());
  EXPECT_THAT(good->reply->output.Floats(), ElementsAre(1.0f));
  const auto bad = stream->Read();
  EXPECT_EQ(bad->request_id, "bad");
  EXPECT_THAT(bad->reply, StatusIs(absl::StatusCode::kUnavailable, "queue is full"));
  EXPECT_EQ(bad->retry_after, 40ms);
  EXPECT_THAT(stream->Read()->reply, IsOk());
  EXPECT_EQ(stream->Read(), std::nullopt);
  EXPECT_THAT(stream->Finish(), IsOk());
}

TEST_F(ClientStreamTest, AcceptsMoreWritesThanTheWindowBeforeTheFirstRead) {
  auto stream = Open(Echo);
  std::vector<std::string> ids;
  for (int i = 0; i < 5 * kWindow; ++i) ids.push_back(absl::StrCat(i));
  for (const std::string& id : ids) ASSERT_THAT(stream->Write(SmallRequest(id)), IsOk());
  stream->WritesDone();
  EXPECT_THAT(ReadAll(*stream), ElementsAreArray(ids));
  EXPECT_THAT(stream->Finish(), IsOk());
}

TEST_F(ClientStreamTest, AllowsOneThreadToWriteAndAnotherToRead) {
  auto stream = Open(Echo);
  std::thread writer([&] {
    for (int i = 0; i < 1000; ++i) EXPECT_THAT(stream->Write(SmallRequest(absl::StrCat(i))), IsOk());
    stream->WritesDone();
  });
  EXPECT_EQ(ReadAll(*stream).size(), 1000u);
  writer.join();
  EXPECT_THAT(stream->Finish(), IsOk());
}

TEST_F(ClientStreamTest, SendsAtMostTheWindowWithoutReplies) {
  absl::Notification full;
  std::atomic<int> received{0};
  auto stream = Open([&](ServerStream& stream) {
    v1::AttendRequest request;
    while (stream.Read(&request)) {
      if (++received == kWindow) full.Notify();
    }
    return grpc::Status::OK;
  });
  int written = 0;
  absl::Status why;
  std::thread writer([&] { why = WriteUntilItFails(*stream, written); });
  full.WaitForNotification();
  stream->Cancel();
  writer.join();
  EXPECT_EQ(written, kWindow);
  EXPECT_EQ(received, kWindow);
  EXPECT_EQ(why.code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(stream->Finish().code(), absl::StatusCode::kCancelled);
}

TEST_F(ClientStreamTest, WriteReturnsWhyTheServerEndedTheStream) {
  auto stream = Open([](ServerStream& stream) {
    v1::AttendRequest request;
    stream.Read(&request);
    return grpc::Status(grpc::StatusCode::PERMISSION_DENIED, "not you");
  });
  int written = 0;
  const auto denied = StatusIs(absl::StatusCode::kPermissionDenied, "not you");
  EXPECT_THAT(WriteUntilItFails(*stream, written), denied);
  EXPECT_LE(written, kWindow);
  EXPECT_EQ(stream->Read(), std::nullopt);
  EXPECT_THAT(stream->Finish(), denied);
}

TEST_F(ClientStreamTest, WriteFailsAfterAnEarlyEndWithoutError) {
  auto stream = Open([](ServerStream&) { return grpc::Status::OK; });
  int written = 0;
  EXPECT_EQ(WriteUntilItFails(*stream, written).code(), absl::StatusCode::kAborted);
  EXPECT_THAT(stream->Finish(), IsOk());
}

TEST_F(ClientStreamTest, KeepsRepliesBeforeAnEarlyEnd) {
  auto stream = Open([](ServerStream& stream) {
    stream.Write(ReplyTo("only"));
    return grpc::Status(grpc::StatusCode::INTERNAL, "broken");
  });
  EXPECT_THAT(ReadAll(*stream), ElementsAre("only"));
  EXPECT_THAT(stream->Finish(), StatusIs(absl::StatusCode::kInternal, "broken"));
}

TEST_F(ClientStreamTest, CancelEndsABlockedRead) {
  absl::Notification reading;
  auto stream = Open([&](ServerStream& stream) {
    reading.Notify();
    return Swallow(stream);
  });
  std::thread canceller([&] {
    reading.WaitForNotification();
    stream->Cancel();
  });
  EXPECT_EQ(stream->Read(), std::nullopt);
  canceller.join();
  EXPECT_EQ(stream->Finish().code(), absl::StatusCode::kCancelled);
}

TEST_F(ClientStreamTest, EndsAtItsDeadline) {
  server_.attention.on_stream = Swallow;
  auto stream = server_.Connect().OpenStream({.timeout = 20ms});
  EXPECT_EQ(stream->Read(), std::nullopt);
  EXPECT_EQ(stream->Finish().code(), absl::StatusCode::kDeadlineExceeded);
}

TEST_F(ClientStreamTest, StaysOpenAfterARefusedRequest) {
  auto stream = Open(Echo);
  const float number = 1;
  const int64_t wrong_shape[] = {2};
  EXPECT_THAT(
      stream->Write({.inputs_q = Float32({&number, 1}, wrong_shape)}),
      StatusIs(absl::StatusCode::kInvalidArgument, "inputs_q: expected 8 bytes for shape [2] of float32, got 4"));
  EXPECT_THAT(stream->Write(SmallRequest("good")), IsOk());
  stream->WritesDone();
  EXPECT_THAT(stream->Write(SmallRequest("late")),
              StatusIs(absl::StatusCode::kFailedPrecondition, "stream: Write was called after WritesDone"));
  EXPECT_THAT(ReadAll(*stream), ElementsAre("good"));
  EXPECT_THAT(stream->Finish(), IsOk());
}

TEST_F(ClientStreamTest, FinishCallsWritesDoneAndKeepsUnreadReplies) {
  auto stream = Open(Echo);
  ASSERT_THAT(stream->Write(SmallRequest("unread")), IsOk());
  EXPECT_THAT(stream->Finish(), IsOk());
  EXPECT_THAT(stream->Finish(), IsOk());
  EXPECT_THAT(ReadAll(*stream), ElementsAre("unread"));
}

TEST_F(ClientStreamTest, AcceptsMoreRepliesThanRequests) {
  auto stream = Open([](ServerStream& stream) {
    for (int i = 0; i < 10; ++i) stream.Write(ReplyTo("uncalled"));
    return Echo(stream);
  });
  ASSERT_THAT(stream->Write(SmallRequest("called")), IsOk());
  stream->WritesDone();
  EXPECT_EQ(ReadAll(*stream).size(), 11u);
  EXPECT_THAT(stream->Finish(), IsOk());
}

TEST_F(ClientStreamTest, MayBeDestroyedInAnyState) {
  const std::vector<std::function<void(AttendStream&)>> states = {
      [](AttendStream&) {},
      [](AttendStream& stream) { stream.Write(SmallRequest()).IgnoreError(); },
      [](AttendStream& stream) { stream.WritesDone(); },
      [](AttendStream& stream) { stream.Write(SmallRequest()).IgnoreError(), stream.WritesDone(); },
      [](AttendStream& stream) { stream.Write(SmallRequest()).IgnoreError(), stream.Read(); },
      [](AttendStream& stream) { stream.WritesDone(), stream.Read(); },
      [](AttendStream& stream) { stream.Cancel(); },
      [](AttendStream& stream) { stream.Finish().IgnoreError(); },
  };
  std::atomic<size_t> ended{0};
  {
    FakeAttentionServer server;
    server.attention.on_stream = [&](ServerStream& stream) {
      const grpc::Status status = Echo(stream);
      ++ended;
      return status;
    };
    const Client client = server.Connect();
    for (const auto& reach_state : states) {
      // One echo first: a call that is cancelled before it reaches the server never runs there.
      auto stream = client.OpenStream();
      ASSERT_THAT(stream->Write(SmallRequest()), IsOk());
      ASSERT_TRUE(stream->Read().has_value());
      reach_state(*stream);
    }
  }
  EXPECT_EQ(ended, states.size());
}

TEST_F(ClientStreamTest, EndsAtOnceWithoutAServer) {
  auto stream = Client::Connect("unix:/nonexistent/attention.sock")->OpenStream();
  EXPECT_EQ(stream->Read(), std::nullopt);
  EXPECT_EQ(stream->Write(SmallRequest()).code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(stream->Finish().code(), absl::StatusCode::kUnavailable);
}

}  // namespace
}  // namespace attention::test
