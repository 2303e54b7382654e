#include <chrono>

#include "absl/strings/str_cat.h"
#include "client/cli/attend/call_inputs.h"
#include "client/cli/commands.h"
#include "client/cli/tensor_files.h"
#include "client/cli/text_format.h"

namespace attention::cli {
namespace {

absl::Status WriteOutputs(const AttendReply& reply, const AttendOptions& options) {
  std::vector<TensorToWrite> tensors;
  if (!options.output.empty()) tensors.push_back({options.output, "output", reply.output});
  const struct {
    const std::string& file;
    const char* name;
    const std::optional<Tensor>& tensor;
  } others[] = {
      {options.attn_weights, "attn_weights", reply.attn_weights},
      {options.mean_attn_weights, "mean_attn_weights", reply.mean_attn_weights},
      {options.log_sum_exp, "log_sum_exp", reply.log_sum_exp},
  };
  for (const auto& other : others) {
    if (other.file.empty()) continue;
    if (!other.tensor) return absl::InternalError(absl::StrCat("reply.", other.name, ": missing"));
    tensors.push_back({other.file, other.name, *other.tensor});
  }
  return WriteTensors(tensors);
}

absl::StatusOr<std::string> TensorText(const Tensor& tensor, const std::string& head = "") {
  const absl::StatusOr<Numbers> numbers = ToNumbers(tensor);
  if (!numbers.ok()) return numbers.status();
  return absl::StrCat(head, PrintTensor(*numbers, NumpyLimits(*numbers), static_cast<int>(head.size())), "\n");
}

absl::StatusOr<std::string> TopKeysText(const AttendReply& reply) {
  if (!reply.top_keys) return absl::InternalError("reply.top_keys: missing");
  const absl::StatusOr<std::string> keys = TensorText(reply.top_keys->keys, "top_keys = ");
  if (!keys.ok()) return keys.status();
  const absl::StatusOr<std::string> weights = TensorText(reply.top_keys->weights, "top_weights = ");
  if (!weights.ok()) return weights.status();
  return absl::StrCat(*keys, *weights);
}

std::string Summary(const AttendReply& reply, std::chrono::nanoseconds elapsed) {
  const std::string source = reply.weight_set.empty()
                                 ? "without a weight set"
                                 : absl::StrCat("from ", reply.weight_set, ", version ", reply.version, ",");
  const std::string text = absl::StrCat(
      Name(reply.output.dtype), " ", FormatShape(reply.output.shape), " ", source, " in ", FormatTime(elapsed),
      " including the connection (queue ", FormatTime(reply.timing.queue_time), ", compute ",
      FormatTime(reply.timing.compute_time), ", batch of ", CountOf(reply.timing.batch_requests, "request"), ")\n");
  if (reply.empty_rows == 0) return text;
  return absl::StrCat(CountOf(reply.empty_rows, "query row"), " (counted per head) ",
                      reply.empty_rows == 1 ? "sees" : "see", " no key\n", text);
}

// The tensors that are not written to a file, and a line about the call.
absl::StatusOr<std::string> Report(const AttendReply& reply, const AttendOptions& options,
                                   std::chrono::nanoseconds elapsed) {
  std::string text;
  if (options.output.empty()) {
    const absl::StatusOr<std::string> output = TensorText(reply.output);
    if (!output.ok()) return output.status();
    text = *output;
  }
  if (options.top_k > 0) {
    const absl::StatusOr<std::string> top_keys = TopKeysText(reply);
    if (!top_keys.ok()) return top_keys.status();
    text += *top_keys;
  }
  return text + Summary(reply, elapsed);
}

}  // namespace

absl::StatusOr<std::string> Run(const ServerOptions& server, const AttendOptions& options) {
  const absl::StatusOr<CallInputs> inputs = CallInputs::Read(options.inputs);
  if (!inputs.ok()) return inputs.status();
  const absl::StatusOr<ServerConnection> connection = ServerConnection::Open(server);
  if (!connection.ok()) return connection.status();

  AttendRequest request = inputs->request();
  request.return_attn_weights = !options.attn_weights.empty();
  request.return_mean_attn_weights = !options.mean_attn_weights.empty();
  request.return_log_sum_exp = !options.log_sum_exp.empty();
  request.top_k = options.top_k;
  const auto start = std::chrono::steady_clock::now();
  const absl::StatusOr<AttendReply> reply = connection->client.Attend(request, connection->options);
  const auto elapsed = std::chrono::steady_clock::now() - start;
  if (!reply.ok()) return reply.status();

  if (absl::Status status = WriteOutputs(*reply, options); !status.ok()) return status;
  return Report(*reply, options, elapsed);
}

}  // namespace attention::cli
