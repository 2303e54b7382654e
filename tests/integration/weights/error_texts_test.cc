// Errors of the weight service over a socket: the message has the one form of error text and names the field.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/testing/error_form.h"
#include "tests/testing/matchers.h"
#include "tests/testing/server/raw_call.h"
#include "tests/testing/server/running_server.h"
#include "tests/testing/server/wire.h"

namespace attention::test {
namespace {

using absl::StatusCode;

class WeightErrorTextsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto running = RunningServer::Start({.checkpoints = {{"ones", ToParameters(OnesLayer())}}});
    ASSERT_THAT(running, IsOk());
    running_ = *std::move(running);
  }

  std::unique_ptr<RunningServer> running_;
};

TEST_F(WeightErrorTextsTest, OfLookUpsHaveTheOneForm) {
  const auto list = [&](const std::string& prefix, int page_size, const std::string& token) {
    v1::ListWeightSetsRequest request;
    request.set_prefix(prefix);
    request.set_page_size(page_size);
    request.set_page_token(token);
    grpc::ClientContext context;
    v1::ListWeightSetsResponse response;
    return ToAbsl(running_->raw().weights->ListWeightSets(&context, request, &response));
  };
  ExpectErrorForm(list("", -1, ""), StatusCode::kInvalidArgument, "page_size");
  ExpectErrorForm(list("", 0, "%%%"), StatusCode::kInvalidArgument, "page_token");
  ExpectErrorForm(list("two", 0, "MSBvbmVz"), StatusCode::kInvalidArgument, "page_token");  // "1 ones"

  const auto get = [&](const std::string& name, int64_t version, const std::string& alias) {
    v1::GetWeightSetRequest request;
    request.set_name(name);
    request.set_version(version);
    request.set_alias(alias);
    grpc::ClientContext context;
    v1::WeightSetInfo response;
    return ToAbsl(running_->raw().weights->GetWeightSet(&context, request, &response));
  };
  ExpectErrorForm(get("a//b", 0, ""), StatusCode::kInvalidArgument, "name");
  ExpectErrorForm(get("ones", -1, ""), StatusCode::kInvalidArgument, "version");
  ExpectErrorForm(get("ones", 0, "a/b"), StatusCode::kInvalidArgument, "alias");
  ExpectErrorForm(get("ones", 1, "stable"), StatusCode::kInvalidArgument, "alias");
}

TEST_F(WeightErrorTextsTest, OfUploadsHaveTheOneForm) {
  v1::UploadCheckpointRequest header, chunk;
  header.mutable_header()->set_checkpoint("new");
  header.mutable_header()->set_bytes(100);
  chunk.set_chunk("bytes");
  for (const std::vector<v1::UploadCheckpointRequest>& messages :
       {std::vector<v1::UploadCheckpointRequest>{}, {chunk}, {header, header}}) {
    grpc::ClientContext context;
    v1::LoadCheckpointResponse response;
    const auto writer = running_->raw().weights->UploadCheckpoint(&context, &response);
    for (const auto& message : messages) writer->Write(message);
    writer->WritesDone();
    ExpectErrorForm(ToAbsl(writer->Finish()), StatusCode::kInvalidArgument, "part");
  }
}

}  // namespace
}  // namespace attention::test
