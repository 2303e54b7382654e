#pragma once

#include "attention/v1/weights.grpc.pb.h"
#include "server/rpc/call_gate.h"
#include "server/rpc/serial_executor.h"
#include "server/weights/registry.h"
#include "server/weights/weights_folder.h"

namespace attention::server {

// attention.v1.WeightService. Look-ups are answered at once; loads run one after the other on `loader`. Thread-safe.
class WeightService final : public v1::WeightService::CallbackService {
 public:
  // All of them outlive the service and its calls.
  WeightService(Registry* registry, WeightsFolder* folder, SerialExecutor* loader, CallGate* gate)
      : registry_(registry), folder_(folder), loader_(loader), gate_(gate) {}

  grpc::ServerUnaryReactor* ListWeightSets(grpc::CallbackServerContext* call, const v1::ListWeightSetsRequest* request,
                                           v1::ListWeightSetsResponse* response) override;
  grpc::ServerUnaryReactor* GetWeightSet(grpc::CallbackServerContext* call, const v1::GetWeightSetRequest* request,
                                         v1::WeightSetInfo* response) override;
  grpc::ServerUnaryReactor* LoadCheckpoint(grpc::CallbackServerContext* call, const v1::LoadCheckpointRequest* request,
                                           v1::LoadCheckpointResponse* response) override;
  grpc::ServerUnaryReactor* Unload(grpc::CallbackServerContext* call, const v1::UnloadRequest* request,
                                   v1::UnloadResponse* response) override;

 private:
  absl::Status Find(const v1::GetWeightSetRequest& request, v1::WeightSetInfo* response) const;
  absl::Status Load(const v1::LoadCheckpointRequest& request, v1::LoadCheckpointResponse* response);
  absl::Status Drop(const v1::UnloadRequest& request, v1::UnloadResponse* response);

  Registry* const registry_;
  WeightsFolder* const folder_;
  SerialExecutor* const loader_;
  CallGate* const gate_;  // for loads; look-ups are over before anything could wait for them
};

}  // namespace attention::server
