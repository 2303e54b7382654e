#include <utility>

#include "absl/strings/str_cat.h"
#include "client/cli/attend/call_inputs.h"
#include "client/cli/commands.h"
#include "client/cli/explain/explain_steps.h"
#include "client/cli/explain/heatmap/heatmap.h"
#include "client/cli/explain/public_question.h"

namespace attention::cli {
namespace {

constexpr char kDemoWeightSet[] = "demo/ones";

absl::StatusOr<ExplainedCall> Call(const ServerConnection& connection, AttendRequest request) {
  std::optional<WeightSetInfo> info;
  if (!request.weight_set.empty()) {
    const VersionChoice which = {request.version, request.alias};
    absl::StatusOr<WeightSetInfo> found = connection.client.GetWeightSet(request.weight_set, which, connection.options);
    if (!found.ok()) return found.status();
    info = *std::move(found);
  }
  request.return_intermediates = true;
  request.return_attn_weights = true;
  const absl::StatusOr<AttendReply> reply = connection.client.Attend(request, connection.options);
  if (!reply.ok()) return reply.status();
  return ExplainedCall::Create(info, request, *reply);
}

std::string Source(const ExplainedCall& call) {
  return call.weight_set ? absl::StrCat(call.weight_set->name, ", version ", call.version) : "without a weight set";
}

// Both calls in one picture, as two sequences: attn_weights [2, …]. REQUIRES: their shapes are equal.
absl::Status DrawPublicQuestion(const std::string& file, const ExplainedCall& from_dst, const ExplainedCall& from_src) {
  if (file.empty()) return absl::OkStatus();
  std::vector<double> weights = from_dst.attn_weights.values;
  weights.insert(weights.end(), from_src.attn_weights.values.begin(), from_src.attn_weights.values.end());
  return WriteHeatmap(file,
                      {.sizes = {2, from_dst.num_heads, from_dst.q_length, from_dst.kv_length},
                       .attn_weights = weights,
                       .title = Source(from_dst) + ": sequence 0, queries from dst; sequence 1, queries from src"});
}

absl::StatusOr<std::string> RunPublicQuestion(const ServerConnection& connection, const ExplainOptions& options) {
  const PublicQuestion question = MakePublicQuestion();
  AttendRequest request = RequestWithoutTensors(options.inputs);
  request.weight_set = kDemoWeightSet;
  request.inputs_q = question.dst;
  request.inputs_k = question.src;
  const absl::StatusOr<ExplainedCall> from_dst = Call(connection, request);
  if (!from_dst.ok()) return from_dst.status();
  std::swap(request.inputs_q, *request.inputs_k);
  const absl::StatusOr<ExplainedCall> from_src = Call(connection, request);
  if (!from_src.ok()) return from_src.status();
  if (absl::Status status = DrawPublicQuestion(options.heatmap, *from_dst, *from_src); !status.ok()) return status;
  return ExplainPublicQuestion(*from_dst, *from_src, options.limits);
}

absl::Status Draw(const std::string& file, const ExplainedCall& call) {
  if (file.empty()) return absl::OkStatus();
  return WriteHeatmap(file, {.sizes = {call.batch, call.num_heads, call.q_length, call.kv_length},
                             .attn_weights = call.attn_weights.values,
                             .title = Source(call)});
}

}  // namespace

absl::StatusOr<std::string> Run(const ServerOptions& server, const ExplainOptions& options) {
  const absl::StatusOr<ServerConnection> connection = ServerConnection::Open(server);
  if (!connection.ok()) return connection.status();
  if (options.public_question) return RunPublicQuestion(*connection, options);

  const absl::StatusOr<CallInputs> inputs = CallInputs::Read(options.inputs);
  if (!inputs.ok()) return inputs.status();
  const absl::StatusOr<ExplainedCall> call = Call(*connection, inputs->request());
  if (!call.ok()) return call.status();
  const ExplainSettings settings = {.spot = {options.sequence, options.head, options.row}, .limits = options.limits};
  const absl::StatusOr<std::string> steps = ExplainSteps(*call, settings);
  if (!steps.ok()) return steps.status();
  if (absl::Status status = Draw(options.heatmap, *call); !status.ok()) return status;
  return absl::StrCat("The formula:\n\n", FormulaText(), "\n", *steps);
}

}  // namespace attention::cli
