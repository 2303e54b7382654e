#pragma once

#include "attention/v1/attention.grpc.pb.h"
#include "server/rpc/attend_call.h"

namespace attention::server {

// Implements attention.v1.AttentionService. The handlers only validate and queue requests; runner threads finish the
// calls. Thread-safe.
class AttendService final : public v1::AttentionService::CallbackService {
 public:
  explicit AttendService(const AttendContext& context) : context_(context) {}

  grpc::ServerUnaryReactor* Attend(grpc::CallbackServerContext* call, const v1::AttendRequest* request,
                                   v1::AttendResponse* response) override;

  // Defined in attend_stream.cc.
  grpc::ServerBidiReactor<v1::AttendRequest, v1::AttendStreamResponse>* AttendStream(
      grpc::CallbackServerContext* call) override;

 private:
  const AttendContext context_;
};

}  // namespace attention::server
