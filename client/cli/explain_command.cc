#include "absl/strings/str_cat.h"
#include "client/cli/call_inputs.h"
#include "client/cli/commands.h"
#include "client/cli/explain_steps.h"
#include "client/cli/public_question.h"

namespace attention::cli {
namespace {

constexpr char kDemoWeightSet[] = "demo/ones";

absl::StatusOr<ExplainedCall> Call(const ServerCalls& calls, AttendRequest request) {
  const absl::StatusOr<WeightSetInfo> info = calls.client.GetWeightSet(request.weight_set, calls.options);
  if (!info.ok()) return info.status();
  request.return_intermediates = true;
  request.return_attn_weights = true;
  const absl::StatusOr<AttendReply> reply = calls.client.Attend(request, calls.options);
  if (!reply.ok()) return reply.status();
  return ExplainedCall::Create(*info, request, *reply);
}

absl::StatusOr<std::string> RunPublicQuestion(const ServerCalls& calls, const PrintLimits& limits) {
  const PublicQuestion question = MakePublicQuestion();
  AttendRequest request;
  request.weight_set = kDemoWeightSet;
  request.inputs_q = question.dst;
  request.inputs_k = question.src;
  const absl::StatusOr<ExplainedCall> from_dst = Call(calls, request);
  if (!from_dst.ok()) return from_dst.status();
  std::swap(request.inputs_q, *request.inputs_k);
  const absl::StatusOr<ExplainedCall> from_src = Call(calls, request);
  if (!from_src.ok()) return from_src.status();
  return ExplainPublicQuestion(*from_dst, *from_src, limits);
}

}  // namespace

absl::StatusOr<std::string> Run(const ServerOptions& server, const ExplainOptions& options) {
  const absl::StatusOr<ServerCalls> calls = ServerCalls::Connect(server);
  if (!calls.ok()) return calls.status();
  if (options.public_question) return RunPublicQuestion(*calls, options.settings.limits);

  const absl::StatusOr<CallInputs> inputs = CallInputs::Read(options.inputs);
  if (!inputs.ok()) return inputs.status();
  const absl::StatusOr<ExplainedCall> call = Call(*calls, inputs->request());
  if (!call.ok()) return call.status();
  const absl::StatusOr<std::string> steps = ExplainSteps(*call, options.settings);
  if (!steps.ok()) return steps.status();
  return absl::StrCat("The formula:\n\n", FormulaText(), "\n", *steps);
}

}  // namespace attention::cli
