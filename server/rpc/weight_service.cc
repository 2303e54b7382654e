#include "server/rpc/weight_service.h"

#include <spdlog/spdlog.h>

#include <optional>
#include <utility>

#include "server/observability/logging.h"
#include "server/rpc/grpc_call.h"
#include "server/rpc/tensor_proto.h"
#include "server/weights/names.h"

namespace attention::server {
namespace {

void FillInfo(const WeightSet& weight_set, v1::WeightSetInfo* info) {
  const LayerShape& shape = weight_set.layer->shape();
  info->set_name(weight_set.name);
  info->set_version(weight_set.version);
  info->set_checkpoint(weight_set.checkpoint);
  info->set_in_features(shape.in_features);
  info->set_in_k_features(shape.in_k_features);
  info->set_in_v_features(shape.in_v_features);
  info->set_num_heads(shape.heads.num_heads);
  info->set_num_kv_heads(shape.heads.num_kv_heads);
  info->set_head_dim(shape.heads.head_dim);
  info->set_value_head_dim(shape.heads.value_head_dim);
  info->set_out_features(shape.out_features);
  info->set_bytes(weight_set.layer->bytes());
  for (const ParameterInfo& parameter : weight_set.parameters) {
    if (parameter.name == "query_ln/scale") info->set_normalize_qk(true);
    v1::ParameterInfo* filled = info->add_parameters();
    filled->set_name(parameter.name);
    filled->set_dtype(DTypeToProto(parameter.dtype));
    filled->mutable_shape()->Add(parameter.shape.begin(), parameter.shape.end());
  }
}

// For work that is a look-up: done on gRPC's thread.
grpc::ServerUnaryReactor* Answer(grpc::CallbackServerContext* call, const absl::Status& status) {
  grpc::ServerUnaryReactor* reactor = call->DefaultReactor();
  FinishCall(call, reactor, status);
  return reactor;
}

}  // namespace

grpc::ServerUnaryReactor* WeightService::ListWeightSets(grpc::CallbackServerContext* call,
                                                        const v1::ListWeightSetsRequest*,
                                                        v1::ListWeightSetsResponse* response) {
  for (const WeightSetPtr& weight_set : registry_->List()) FillInfo(*weight_set, response->add_weight_sets());
  return Answer(call, absl::OkStatus());
}

grpc::ServerUnaryReactor* WeightService::GetWeightSet(grpc::CallbackServerContext* call,
                                                      const v1::GetWeightSetRequest* request,
                                                      v1::WeightSetInfo* response) {
  return Answer(call, Find(*request, response));
}

grpc::ServerUnaryReactor* WeightService::LoadCheckpoint(grpc::CallbackServerContext* call,
                                                        const v1::LoadCheckpointRequest* request,
                                                        v1::LoadCheckpointResponse* response) {
  std::optional<CallGate::Pass> pass = gate_->Enter();
  if (!pass) return Answer(call, CallGate::Closed());
  grpc::ServerUnaryReactor* reactor = call->DefaultReactor();
  absl::AnyInvocable<void()> load = [this, call, reactor, request, response, pass = *std::move(pass)] {
    const bool cancelled = call->IsCancelled();
    FinishCall(call, reactor,
               cancelled ? absl::CancelledError("ended before its turn came") : Load(*request, response));
  };
  if (auto status = loader_->Run(load); !status.ok()) FinishCall(call, reactor, status);
  return reactor;
}

grpc::ServerUnaryReactor* WeightService::Unload(grpc::CallbackServerContext* call, const v1::UnloadRequest* request,
                                                v1::UnloadResponse* response) {
  return Answer(call, Drop(*request, response));
}

absl::Status WeightService::Find(const v1::GetWeightSetRequest& request, v1::WeightSetInfo* response) const {
  if (auto status = CheckName("name", request.name()); !status.ok()) return status;
  const auto weight_set = registry_->Find(request.name());
  if (weight_set.ok()) FillInfo(**weight_set, response);
  return weight_set.status();
}

absl::Status WeightService::Load(const v1::LoadCheckpointRequest& request, v1::LoadCheckpointResponse* response) {
  const auto loaded = folder_->LoadCheckpoint(request.checkpoint());
  if (!loaded.ok()) {
    spdlog::warn("load checkpoint=\"{}\" failed: {}", ForLog(request.checkpoint()), ForLog(loaded.status().message()));
    return loaded.status();
  }
  for (const WeightSetPtr& weight_set : loaded->weight_sets) FillInfo(*weight_set, response->add_weight_sets());
  spdlog::info("loaded checkpoint=\"{}\" weight_sets={}", request.checkpoint(), loaded->weight_sets.size());
  response->mutable_unused_tensors()->Add(loaded->unused_tensors.begin(), loaded->unused_tensors.end());
  return absl::OkStatus();
}

absl::Status WeightService::Drop(const v1::UnloadRequest& request, v1::UnloadResponse* response) {
  if (auto status = CheckName("name", request.name()); !status.ok()) return status;
  const auto version = registry_->Unload(request.name());
  if (version.ok()) {
    response->set_version(*version);
    spdlog::info("unloaded weight_set=\"{}\" version={}", request.name(), *version);
  }
  return version.status();
}

}  // namespace attention::server
