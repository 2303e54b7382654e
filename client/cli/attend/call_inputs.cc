#include "client/cli/attend/call_inputs.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "client/cli/attend/literal.h"
#include "client/cli/tensor_files.h"

namespace attention::cli {
namespace {

absl::StatusOr<Tensor> ReadInput(const std::string& argument, const std::string& name, DataType literal_type) {
  absl::StatusOr<Tensor> tensor =
      LooksLikeLiteral(argument) ? ParseLiteral(argument, literal_type) : ReadTensor(argument, name);
  if (tensor.ok()) return tensor;
  return absl::Status(tensor.status().code(), absl::StrCat(name, ": ", tensor.status().message()));
}

std::optional<TensorRef> Ref(const std::optional<Tensor>& tensor) {
  if (!tensor) return std::nullopt;
  return TensorRef(*tensor);
}

}  // namespace

absl::StatusOr<CallInputs> CallInputs::Read(const InputOptions& options) {
  CallInputs inputs;
  inputs.options_ = options;
  absl::StatusOr<Tensor> inputs_q = ReadInput(options.inputs_q, "inputs_q", DataType::kFloat32);
  if (!inputs_q.ok()) return inputs_q.status();
  inputs.inputs_q_ = *std::move(inputs_q);
  const struct {
    const std::string& argument;
    const char* name;
    DataType literal_type;
    std::optional<Tensor>& tensor;
  } others[] = {
      {options.inputs_k, "inputs_k", DataType::kFloat32, inputs.inputs_k_},
      {options.inputs_v, "inputs_v", DataType::kFloat32, inputs.inputs_v_},
      {options.bias, "bias", DataType::kFloat32, inputs.bias_},
      {options.mask, "mask", DataType::kBool, inputs.mask_},
      {options.q_segment_ids, "q_segment_ids", DataType::kInt64, inputs.q_segment_ids_},
      {options.kv_segment_ids, "kv_segment_ids", DataType::kInt64, inputs.kv_segment_ids_},
  };
  for (const auto& other : others) {
    if (other.argument.empty()) continue;
    absl::StatusOr<Tensor> read = ReadInput(other.argument, other.name, other.literal_type);
    if (!read.ok()) return read.status();
    other.tensor = *std::move(read);
  }
  return inputs;
}

AttendRequest CallInputs::request() const {
  AttendRequest request = RequestWithoutTensors(options_);
  request.inputs_q = inputs_q_;
  request.inputs_k = Ref(inputs_k_);
  request.inputs_v = Ref(inputs_v_);
  request.bias = Ref(bias_);
  request.mask.dense = Ref(mask_);
  request.mask.q_segment_ids = Ref(q_segment_ids_);
  request.mask.kv_segment_ids = Ref(kv_segment_ids_);
  return request;
}

AttendRequest RequestWithoutTensors(const InputOptions& options) {
  AttendRequest request;
  request.weight_set = options.weight_set;
  request.version = options.which.version;
  request.alias = options.which.alias;
  request.mask.causal = options.causal;
  request.mask.window = options.window;
  request.mask.kv_lengths = options.kv_lengths;
  request.mask.q_lengths = options.q_lengths;
  request.heads = options.heads;
  request.scale = options.scale;
  request.softcap = options.softcap;
  request.empty_rows = options.empty_rows;
  request.output_dtype = options.output_dtype;
  request.compute_dtype = options.compute_dtype;
  request.request_id = options.request_id;
  request.priority = options.priority;
  return request;
}

absl::StatusOr<ServerCalls> ServerCalls::Connect(const ServerOptions& server) {
  absl::StatusOr<Client> client = Client::Connect(server.address);
  if (!client.ok()) return client.status();
  return ServerCalls{*std::move(client), {.timeout = server.timeout}};
}

}  // namespace attention::cli
