#pragma once

#include <gmock/gmock.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "attention/v1/attention.grpc.pb.h"
#include "attention/v1/weights.grpc.pb.h"
#include "client/attention_client.h"
#include "grpc/health/v1/health.grpc.pb.h"

namespace attention::test {

using ServerStream = grpc::ServerReaderWriter<v1::AttendStreamResponse, v1::AttendRequest>;

inline v1::Tensor OneFloat(float value) {
  v1::Tensor tensor;
  tensor.set_dtype(v1::DATA_TYPE_FLOAT32);
  tensor.add_shape(1);
  tensor.set_data(&value, sizeof(value));
  return tensor;
}

// The reply to one request of a stream.
inline v1::AttendStreamResponse ReplyTo(const std::string& request_id) {
  v1::AttendStreamResponse reply;
  reply.set_request_id(request_id);
  reply.mutable_response()->set_request_id(request_id);
  *reply.mutable_response()->mutable_output() = OneFloat(1);
  return reply;
}

// Answers as the test specifies, and counts the calls.
struct FakeAttention final : v1::AttentionService::Service {
  grpc::Status Attend(grpc::ServerContext* context, const v1::AttendRequest* request,
                      v1::AttendResponse* response) override {
    *response->mutable_output() = OneFloat(1);
    return on_attend(++calls, *context, *request, *response);
  }
  grpc::Status AttendStream(grpc::ServerContext*, ServerStream* stream) override { return on_stream(*stream); }

  // The first argument is the number of the call, from 1. The response's output is already set to one float.
  std::function<grpc::Status(int, grpc::ServerContext&, const v1::AttendRequest&, v1::AttendResponse&)> on_attend;
  std::function<grpc::Status(ServerStream&)> on_stream;
  std::atomic<int> calls{0};
};

using UploadReader = grpc::ServerReader<v1::UploadCheckpointRequest>;

// Answers uploads with `on_upload`. Answers all other calls with `status` and the values in `info`, and counts them.
struct FakeWeights final : v1::WeightService::Service {
  grpc::Status ListWeightSets(grpc::ServerContext*, const v1::ListWeightSetsRequest* request,
                              v1::ListWeightSetsResponse* response) override {
    *response->add_weight_sets() = info;
    if (on_list) on_list(*request, *response);
    return Answer(request->prefix());
  }
  grpc::Status GetWeightSet(grpc::ServerContext*, const v1::GetWeightSetRequest* request,
                            v1::WeightSetInfo* response) override {
    *response = info;
    last_version = request->version();
    last_alias = request->alias();
    return Answer(request->name());
  }
  grpc::Status LoadCheckpoint(grpc::ServerContext*, const v1::LoadCheckpointRequest* request,
                              v1::LoadCheckpointResponse* response) override {
    *response->add_weight_sets() = info;
    response->add_unused_tensors("step");
    response->set_checkpoint(request->checkpoint());
    num_heads = request->num_heads();
    replace = request->replace();
    response->add_dropped_versions(7);
    response->add_removed_weight_sets("ocr/layer1");
    return Answer(request->checkpoint());
  }
  grpc::Status UploadCheckpoint(grpc::ServerContext*, UploadReader* reader,
                                v1::LoadCheckpointResponse* response) override {
    return on_upload(*reader, *response);
  }
  grpc::Status Unload(grpc::ServerContext*, const v1::UnloadRequest* request, v1::UnloadResponse* response) override {
    response->set_version(info.version());
    return Answer(request->checkpoint());
  }
  grpc::Status Delete(grpc::ServerContext*, const v1::DeleteRequest* request, v1::DeleteResponse* response) override {
    last_version = request->version();
    response->add_versions(info.version());
    response->add_versions(info.version() + 1);
    response->add_removed_files("ocr.npz");
    response->add_remaining_files("ocr.msgpack");
    return Answer(request->checkpoint());
  }
  grpc::Status SetAlias(grpc::ServerContext*, const v1::SetAliasRequest* request,
                        v1::SetAliasResponse* response) override {
    set_alias = *request;
    response->set_previous_version(info.version());
    return Answer(request->checkpoint());
  }
  grpc::Status Answer(const std::string& name) {
    ++calls;
    last_name = name;
    return status;
  }

  v1::WeightSetInfo info;
  grpc::Status status;
  std::function<grpc::Status(UploadReader&, v1::LoadCheckpointResponse&)> on_upload;
  std::function<void(const v1::ListWeightSetsRequest&, v1::ListWeightSetsResponse&)> on_list;

  std::string last_name;
  int64_t last_version = 0;
  std::string last_alias;
  int64_t num_heads = 0;
  bool replace = false;
  v1::SetAliasRequest set_alias;
  std::atomic<int> calls{0};
};

struct FakeHealth final : grpc::health::v1::Health::Service {
  grpc::Status Check(grpc::ServerContext*, const grpc::health::v1::HealthCheckRequest* request,
                     grpc::health::v1::HealthCheckResponse* response) override {
    if (request->service() == "unknown") return {grpc::StatusCode::NOT_FOUND, "unknown service"};
    response->set_status(status);
    return grpc::Status::OK;
  }

  grpc::health::v1::HealthCheckResponse::ServingStatus status = grpc::health::v1::HealthCheckResponse::SERVING;
};

// A real gRPC server on a free port, with services that answer as a test specifies before the first call.
class FakeAttentionServer {
 public:
  FakeAttentionServer() {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port_);
    builder.SetMaxReceiveMessageSize(-1);
    builder.RegisterService(&attention);
    builder.RegisterService(&weights);
    builder.RegisterService(&health);
    server_ = builder.BuildAndStart();
  }
  // Waits for the calls in progress.
  ~FakeAttentionServer() { server_->Shutdown(); }

  std::string address() const { return absl::StrCat("127.0.0.1:", port_); }

  // A client with backoffs short enough for a test.
  Client Connect(ClientOptions options = {}) const {
    options.retry_initial_backoff = std::chrono::milliseconds(1);
    options.retry_max_backoff = std::chrono::milliseconds(1);
    return Client::Connect(address(), options).value();
  }

  FakeAttention attention;
  FakeWeights weights;
  FakeHealth health;

 private:
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
};

// A test with a FakeAttentionServer.
class FakeServerTest : public ::testing::Test {
 protected:
  // Answers every Attend with this status.
  void AnswerWith(grpc::Status status) {
    server_.attention.on_attend = [status](auto&&...) { return status; };
  }
  // The first `failures` calls fail with UNAVAILABLE, the others succeed.
  void FailFirst(int failures) {
    server_.attention.on_attend = [failures](int call, auto&&...) {
      if (call <= failures) return grpc::Status(grpc::StatusCode::UNAVAILABLE, absl::StrCat("full ", call));
      return grpc::Status::OK;
    };
  }
  void AnswerOnceReleased() {
    server_.attention.on_attend = [this](auto&&...) {
      release_.WaitForNotification();
      return grpc::Status::OK;
    };
  }
  int calls() const { return server_.attention.calls; }

  // Declared before the server, because its handlers may wait for it while the server is destroyed.
  absl::Notification release_;
  FakeAttentionServer server_;
};

// A small valid request.
inline AttendRequest SmallRequest(const std::string& request_id = "") {
  static const float numbers[] = {1, 2};
  static const int64_t shape[] = {1, 2};
  return {.weight_set = "demo", .inputs_q = Float32(numbers, shape), .request_id = request_id};
}

}  // namespace attention::test
