#include "client/cli/call_inputs.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "client/cli/literal.h"
#include "client/cli/tensor_files.h"

namespace attention::cli {
namespace {

absl::StatusOr<Tensor> ReadInput(const std::string& argument, const std::string& name) {
  const DataType literal_type = name == "mask" ? DataType::kBool : DataType::kFloat32;
  absl::StatusOr<Tensor> tensor =
      LooksLikeLiteral(argument) ? ParseLiteral(argument, literal_type) : ReadTensor(argument, name);
  if (tensor.ok()) return tensor;
  return absl::Status(tensor.status().code(), absl::StrCat(name, ": ", tensor.status().message()));
}

absl::Status ReadOptional(const std::string& argument, const std::string& name, std::optional<Tensor>& tensor) {
  if (argument.empty()) return absl::OkStatus();
  absl::StatusOr<Tensor> read = ReadInput(argument, name);
  if (!read.ok()) return read.status();
  tensor = *std::move(read);
  return absl::OkStatus();
}

std::optional<TensorRef> Ref(const std::optional<Tensor>& tensor) {
  if (!tensor) return std::nullopt;
  return TensorRef(*tensor);
}

}  // namespace

absl::StatusOr<CallInputs> CallInputs::Read(const InputOptions& options) {
  CallInputs inputs;
  inputs.weight_set_ = options.weight_set;
  inputs.request_id_ = options.request_id;
  inputs.priority_ = options.priority;
  absl::StatusOr<Tensor> inputs_q = ReadInput(options.inputs_q, "inputs_q");
  if (!inputs_q.ok()) return inputs_q.status();
  inputs.inputs_q_ = *std::move(inputs_q);
  absl::Status status = ReadOptional(options.inputs_k, "inputs_k", inputs.inputs_k_);
  if (status.ok()) status = ReadOptional(options.inputs_v, "inputs_v", inputs.inputs_v_);
  if (status.ok()) status = ReadOptional(options.mask, "mask", inputs.mask_);
  if (!status.ok()) return status;
  return inputs;
}

AttendRequest CallInputs::request() const {
  AttendRequest request;
  request.weight_set = weight_set_;
  request.inputs_q = inputs_q_;
  request.inputs_k = Ref(inputs_k_);
  request.inputs_v = Ref(inputs_v_);
  request.mask = Ref(mask_);
  request.request_id = request_id_;
  request.priority = priority_;
  return request;
}

absl::StatusOr<ServerCalls> ServerCalls::Connect(const ServerOptions& server) {
  absl::StatusOr<Client> client = Client::Connect(server.address);
  if (!client.ok()) return client.status();
  return ServerCalls{*std::move(client), {.timeout = server.timeout}};
}

}  // namespace attention::cli
