// grpc.health.v1 and reflection.

#include "tests/testing/server/health.h"

#include <gmock/gmock.h>
#include <grpcpp/generic/generic_stub.h>
#include <gtest/gtest.h>

#include <memory>

#include "tests/testing/matchers.h"
#include "tests/testing/server/raw_call.h"
#include "tests/testing/server/running_server.h"

namespace attention::test {
namespace {

using ::testing::HasSubstr;

class HealthTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto running = RunningServer::Start();
    ASSERT_THAT(running, IsOk());
    running_ = *std::move(running);
  }

  std::unique_ptr<RunningServer> running_;
};

TEST_F(HealthTest, ReportsEveryServiceAsServing) {
  for (const char* service : {"", "attention.v1.AttentionService", "attention.v1.WeightService"}) {
    EXPECT_THAT(running_->client().CheckHealth(service), IsOk()) << service;
  }
}

TEST_F(HealthTest, RejectsUnknownServices) {
  EXPECT_THAT(running_->client().CheckHealth("attention.v1.Unknown"),
              StatusIs(absl::StatusCode::kNotFound, ::testing::_));
}

TEST_F(HealthTest, NotifiesWatchersOfTheStop) {
  using grpc::health::v1::HealthCheckResponse;
  for (const char* service : {"", "attention.v1.AttentionService"}) {
    auto running = RunningServer::Start();
    ASSERT_THAT(running, IsOk());
    HealthWatch watch((*running)->raw().channel, service);
    ASSERT_EQ(watch.Next(), HealthCheckResponse::SERVING);
    (*running)->server().Stop();
    EXPECT_EQ(watch.Next(), HealthCheckResponse::NOT_SERVING);
  }
}

// Sends one encoded reflection request and returns the encoded reply, because the packages have no header of its
// messages.
std::string Reflect(const std::shared_ptr<grpc::Channel>& channel, const std::string& request) {
  grpc::GenericStub stub(channel);
  grpc::ClientContext context;
  grpc::CompletionQueue queue;
  void* tag;
  bool ok;
  const auto wait = [&] { return queue.Next(&tag, &ok) && ok; };
  auto call = stub.PrepareCall(&context, "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", &queue);
  call->StartCall(nullptr);
  if (!wait()) return "";
  grpc::Slice slice(request);
  call->WriteLast(grpc::ByteBuffer(&slice, 1), grpc::WriteOptions(), nullptr);
  if (!wait()) return "";
  grpc::ByteBuffer reply;
  call->Read(&reply, nullptr);
  if (!wait()) return "";
  grpc::Slice flat;
  if (!reply.DumpToSingleSlice(&flat).ok()) return "";
  grpc::Status status;
  call->Finish(&status, nullptr);
  wait();
  return std::string(flat.begin(), flat.end());
}

TEST_F(HealthTest, ReflectionListsTheServices) {
  const std::string reply = Reflect(running_->raw().channel, std::string("\x3a\x00", 2));  // list_services = ""
  for (const char* service : {"attention.v1.AttentionService", "attention.v1.WeightService", "grpc.health.v1.Health"}) {
    EXPECT_THAT(reply, HasSubstr(service));
  }
}

TEST_F(HealthTest, ReflectionDescribesEveryService) {
  const struct {
    std::string symbol, part;
  } cases[] = {{"attention.v1.AttentionService", "AttendStreamResponse"},
               {"attention.v1.WeightService", "LoadCheckpointRequest"},
               {"grpc.health.v1.Health", "HealthCheckRequest"}};
  for (const auto& [symbol, part] : cases) {
    // file_containing_symbol = symbol
    EXPECT_THAT(Reflect(running_->raw().channel, std::string{0x22, static_cast<char>(symbol.size())} + symbol),
                HasSubstr(part));
  }
}

}  // namespace
}  // namespace attention::test
