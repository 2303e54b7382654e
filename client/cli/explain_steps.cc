#include "client/cli/explain_steps.h"

#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "client/cli/explain_inputs.h"
#include "client/cli/explain_row.h"
#include "client/cli/hand_calculation.h"
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
  return absl::StrCat(
      "Weight set ", call.weight_set.name, ", version ", call.version, ": ", CountOf(call.num_heads, "head"), " of ",
      CountOf(call.head_dim, "number"), ", out_features ", call.weight_set.out_features,
      "\nA line that begins with a name of the formula shows the server's numbers; the sums between are "
      "done here, in float64.\n\n");
}

std::string OutputText(const ExplainedCall& call, const PrintLimits& limits) {
  const std::string head = absl::StrCat("output ", FormatShape(call.output.shape), " = ");
  return absl::StrCat(head, PrintTensor(call.output, limits, head.size()), "\n");
}

std::string CheckText(const ExplainedCall& call) {
  if (call.kv_length == 0) return "";
  const Differences differences = CompareByHand(call);
  return absl::StrCat("check: every row calculated again in float64, each step from the server's line before it; max ",
                      "|difference|\n       scores ", differences.scores, ", attn_weights ", differences.attn_weights,
                      ", context ", differences.context, "\n");
}

}  // namespace

std::string FormulaText() {
  return "  query  = inputs_q · query_kernel + query_bias\n"
         "  key    = inputs_k · key_kernel   + key_bias\n"
         "  value  = inputs_v · value_kernel + value_bias\n"
         "  scores = query/√head_dim · keyᵀ, hidden where the mask is false\n"
         "  attn_weights = softmax(scores) over the keys\n"
         "  context = attn_weights · value\n"
         "  output = context · out_kernel + out_bias\n";
}

absl::StatusOr<std::string> ExplainSteps(const ExplainedCall& call, const ExplainSettings& settings) {
  if (absl::Status status = CheckSpot(call, settings.spot); !status.ok()) return status;
  return absl::StrCat(Heading(call), InputsText(call, settings), "\n", ProjectionsText(call, settings), "\n",
                      RowText(call, settings), "\n", OutputText(call, settings.limits), CheckText(call));
}

}  // namespace attention::cli
