#include <chrono>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/cli/call_inputs.h"
#include "client/cli/commands.h"
#include "client/cli/tensor_files.h"
#include "client/cli/tensor_printer.h"

namespace attention::cli {
namespace {

double Milliseconds(std::chrono::nanoseconds time) { return std::chrono::duration<double, std::milli>(time).count(); }

absl::Status WriteOutputs(const AttendReply& reply, const AttendOptions& options) {
  std::vector<TensorToWrite> tensors;
  if (!options.output.empty()) tensors.push_back({options.output, "output", reply.output});
  if (!options.attn_weights.empty()) {
    if (!reply.attn_weights) return absl::InternalError("reply: no attn_weights in it");
    tensors.push_back({options.attn_weights, "attn_weights", *reply.attn_weights});
  }
  return WriteTensors(tensors);
}

std::string Summary(const AttendReply& reply, std::chrono::nanoseconds elapsed) {
  return absl::StrFormat(
      "%s %s from %s version %d in %.3f ms with connecting (queue %.3f, compute %.3f, batch of %s)\n",
      Name(reply.output.dtype), FormatShape(reply.output.shape), reply.weight_set, reply.version, Milliseconds(elapsed),
      Milliseconds(reply.timing.queue_time), Milliseconds(reply.timing.compute_time),
      CountOf(reply.timing.batch_requests, "request"));
}

}  // namespace

absl::StatusOr<std::string> Run(const ServerOptions& server, const AttendOptions& options) {
  const absl::StatusOr<CallInputs> inputs = CallInputs::Read(options.inputs);
  if (!inputs.ok()) return inputs.status();
  const absl::StatusOr<ServerCalls> calls = ServerCalls::Connect(server);
  if (!calls.ok()) return calls.status();

  AttendRequest request = inputs->request();
  request.return_attn_weights = !options.attn_weights.empty();
  const auto start = std::chrono::steady_clock::now();
  const absl::StatusOr<AttendReply> reply = calls->client.Attend(request, calls->options);
  const auto elapsed = std::chrono::steady_clock::now() - start;
  if (!reply.ok()) return reply.status();

  if (absl::Status status = WriteOutputs(*reply, options); !status.ok()) return status;
  const std::string summary = Summary(*reply, elapsed);
  if (!options.output.empty()) return summary;
  const absl::StatusOr<Numbers> output = ToNumbers(reply->output);
  if (!output.ok()) return output.status();
  return absl::StrCat(PrintTensor(*output, NumpyLimits(*output)), "\n", summary);
}

}  // namespace attention::cli
