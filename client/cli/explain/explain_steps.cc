#include "client/cli/explain/explain_steps.h"

#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "client/cli/explain/explain_inputs.h"
#include "client/cli/explain/explain_scores.h"
#include "client/cli/explain/hand_calculation.h"
#include "client/cli/head_axes.h"
#include "client/cli/tensor_printer.h"

namespace attention::cli {
namespace {

absl::Status CheckIndex(const char* flag, int64_t index, int64_t size, const char* what) {
  if (index >= 0 && index < size) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(flag, ": wanted 0 to ", size - 1, " (", CountOf(size, what), " in the request), found ", index));
}

absl::Status CheckSpot(const ExplainedCall& call, const Spot& spot) {
  if (call.output.values.empty()) return absl::InvalidArgumentError("inputs_q: no query row in it, nothing to explain");
  if (absl::Status status = CheckIndex("--sequence", spot.sequence, call.batch, "sequence"); !status.ok())
    return status;
  if (absl::Status status = CheckIndex("--head", spot.head, call.num_heads, "head"); !status.ok()) return status;
  return CheckIndex("--row", spot.row, call.q_length, "query row");
}

std::string Heading(const ExplainedCall& call) {
  const std::string heads = HeadsText({call.num_heads, call.num_kv_heads, call.head_dim, call.value_head_dim});
  const std::string source =
      call.weight_set ? absl::StrCat("Weight set ", call.weight_set->name, ", version ", call.version, ": ", heads,
                                     call.weight_set->normalize_qk ? ", LayerNorm of query and key" : "",
                                     ", out_features ", call.weight_set->out_features)
                      : absl::StrCat("Attention without a weight set: ", heads);
  const char* rounding = call.rounds_to_bfloat16
                             ? "compute_dtype bfloat16: whatever is multiplied is rounded to bfloat16 just before, on "
                               "the server as well as here.\n"
                             : "";
  return absl::StrCat(
      source,
      "\nA line that begins with a name of the formula shows the server's numbers; the sums between are "
      "done here, in float64.\n",
      rounding, "\n");
}

std::string OutputText(const ExplainedCall& call, const PrintLimits& limits) {
  const std::string head = absl::StrCat("output ", FormatShape(call.output.shape), " = ");
  return absl::StrCat(head, PrintTensor(call.output, limits, head.size()), "\n");
}

std::string CheckText(const ExplainedCall& call) {
  if (call.kv_length == 0) return "";
  const Differences differences = CompareByHand(call);
  std::string text = absl::StrCat("check: every row calculated again in float64, each step from the server's line ",
                                  "before it; max |difference|\n       scores ", differences.scores);
  if (call.softcap) absl::StrAppend(&text, ", capped_scores ", differences.capped_scores);
  if (call.bias) absl::StrAppend(&text, ", masked_scores ", differences.masked_scores);
  return absl::StrCat(text, ", attn_weights ", differences.attn_weights, ", context ", differences.context, "\n");
}

}  // namespace

std::string FormulaText() {
  return "  query  = inputs_q · query_kernel + query_bias        [batch…, q_length,  num_heads,    head_dim]\n"
         "  key    = inputs_k · key_kernel   + key_bias          [batch…, kv_length, num_kv_heads, head_dim]\n"
         "  value  = inputs_v · value_kernel + value_bias        [batch…, kv_length, num_kv_heads, value_head_dim]\n"
         "  query, key = LayerNorm of each over head_dim         only if the weight set has query_ln and key_ln\n"
         "  scores = query·scale · keyᵀ                          [batch…, num_heads, q_length, kv_length]\n"
         "  capped_scores = softcap · tanh(scores/softcap)       only if softcap is set\n"
         "  masked_scores = where(mask, capped_scores + bias, −∞)\n"
         "  attn_weights = softmax(masked_scores)                over the last axis\n"
         "  context = attn_weights · value                       [batch…, q_length,  num_heads, value_head_dim]\n"
         "  output = context · out_kernel + out_bias             [batch…, q_length,  out_features]\n";
}

absl::StatusOr<std::string> ExplainSteps(const ExplainedCall& call, const ExplainSettings& settings) {
  if (absl::Status status = CheckSpot(call, settings.spot); !status.ok()) return status;
  return absl::StrCat(Heading(call), InputsText(call, settings), "\n", ProjectionsText(call, settings), "\n",
                      RowText(call, settings), "\n", OutputText(call, settings.limits), CheckText(call));
}

}  // namespace attention::cli
