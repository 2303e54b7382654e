#include "client/cli/explain/explain_steps.h"

#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "client/cli/explain/hand_calculation.h"
#include "server/checkpoint/field_error.h"

namespace attention::cli {
namespace {

absl::Status CheckIndex(const char* flag, int64_t index, int64_t size, const char* what) {
  if (index >= 0 && index < size) return absl::OkStatus();
  return server::FieldError(
      flag,
      absl::StrCat(size == 1 ? "0" : absl::StrCat("0 to ", size - 1), " (the request has ", CountOf(size, what), ")"),
      index);
}

absl::Status CheckSpot(const ExplainedCall& call, const Spot& spot) {
  if (call.output.values.empty()) return server::FieldError("inputs_q", "at least one query row to explain", "none");
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
  return absl::StrCat(source,
                      "\nLines that start with a name of the formula (\"scores = …\") show the server's numbers. The "
                      "calculation between them\nis done by attentionctl in float64.\n",
                      call.rounds_to_bfloat16 ? "compute_dtype bfloat16: the operands of every product are rounded to "
                                                "bfloat16, by the server and here.\n"
                                              : "",
                      "\n");
}

std::string TensorText(const std::string& name, const Numbers& tensor, const PrintLimits& limits) {
  const std::string head = absl::StrCat(name, " ", FormatShape(tensor.shape), " = ");
  return absl::StrCat(head, PrintTensor(tensor, limits, static_cast<int>(head.size())), "\n");
}

// "   query input: dst, 2 rows"
std::string RoleText(const char* role, const std::string& name, int64_t rows, const char* note = "") {
  return absl::StrCat("   ", role, " input: ", name, ", ", CountOf(rows, "row"), note, "\n");
}

// Step 1: the input of the queries, and that of the keys and values.
std::string InputsText(const ExplainedCall& call, const ExplainSettings& settings) {
  const InputNames& names = settings.names;
  std::string text = absl::StrCat("1. Inputs\n", TensorText("   " + names.inputs_q, call.inputs_q, settings.limits));
  if (call.inputs_k) text += TensorText("   " + names.inputs_k, *call.inputs_k, settings.limits);
  if (call.inputs_v) text += TensorText("   " + names.inputs_v, *call.inputs_v, settings.limits);
  text += RoleText("query", names.inputs_q, call.q_length);
  if (call.inputs_v) {
    return text + RoleText("key", names.inputs_k, call.kv_length) + RoleText("value", names.inputs_v, call.kv_length);
  }
  return text + (call.inputs_k
                     ? RoleText("key and value", names.inputs_k, call.kv_length, " (inputs_v defaults to inputs_k)")
                     : RoleText("key and value", names.inputs_q, call.kv_length,
                                " (self-attention: inputs_k and inputs_v default to inputs_q)"));
}

bool HasParameter(const ExplainedCall& call, absl::string_view name) {
  const std::vector<ParameterInfo>& parameters = call.weight_set->parameters;
  return std::any_of(parameters.begin(), parameters.end(),
                     [&](const ParameterInfo& parameter) { return absl::string_view(parameter.name) == name; });
}

struct Projection {
  std::string name;        // "query"
  std::string input_name;  // the caller's
  const Numbers& input;
  const Numbers& output;  // [batch…, length, heads, width]
  int64_t head;           // the one to show
  bool is_normalized;     // by the weight set's LayerNorm
};

// "query = dst [1, 2, 3] · query_kernel [3, 1, 4] + query_bias [1, 4] -> [1, 2, 1, 4]"
std::string Equation(const ExplainedCall& call, const Projection& projection) {
  const std::string& name = projection.name;
  const std::string from = absl::StrCat(projection.input_name, " ", FormatShape(projection.input.shape));
  const std::string to = absl::StrCat(" -> ", FormatShape(projection.output.shape), "\n");
  if (!call.weight_set) return absl::StrCat("   ", name, " = ", from, to);
  const int64_t heads = projection.output.shape.end()[-2], width = projection.output.shape.back();
  const bool has_bias = HasParameter(call, absl::StrCat(name, "/bias"));
  const std::string bias = has_bias ? absl::StrCat(" + ", name, "_bias ", FormatShape({heads, width})) : "";
  const std::string product =
      absl::StrCat(from, " · ", name, "_kernel ", FormatShape({projection.input.shape.back(), heads, width}), bias);
  return absl::StrCat("   ", name, " = ", projection.is_normalized ? absl::StrCat("LayerNorm(", product, ")") : product,
                      to);
}

std::string HeadRows(const Projection& projection, const ExplainSettings& settings) {
  std::string text;
  for (int64_t i : ShownIndices(projection.output.shape.end()[-3], settings.limits.max_rows)) {
    if (i == kEllipsis) {
      text += "      …\n";
      continue;
    }
    const auto row = ExplainedCall::Vector(projection.output, settings.spot, i, projection.head);
    absl::StrAppend(&text, "      ", projection.name, "_", i, " = ", FormatVector(row, settings.limits.max_columns),
                    "\n");
  }
  return text;
}

// "2. Projections: one vector of head_dim = 4 numbers for each row and head; shown for head 1 of 2, counted from 0"
std::string ProjectionsTitle(const ExplainedCall& call, const Spot& spot) {
  std::vector<std::string> shown;
  if (call.num_heads > 1) shown.push_back(absl::StrCat("head ", spot.head, " of ", call.num_heads));
  if (call.num_kv_heads != call.num_heads) {
    shown.push_back(absl::StrCat("its key and value head ", call.KvHead(spot.head), " of ", call.num_kv_heads));
  }
  if (call.batch > 1) shown.push_back(absl::StrCat("sequence ", spot.sequence, " of ", call.batch));
  const std::string value_head_dim =
      call.value_head_dim == call.head_dim ? "" : absl::StrCat(" (values: value_head_dim = ", call.value_head_dim, ")");
  return absl::StrCat(
      "2. ", call.weight_set ? "Projections" : "No projections, the inputs are query, key and value",
      ": one vector of head_dim = ", call.head_dim, " numbers", value_head_dim, " for each row and head",
      shown.empty() ? "" : absl::StrCat("; shown for ", absl::StrJoin(shown, ", "), ", counted from 0"), "\n");
}

// Step 2: shapes of the projections, and query, key and value of the settings' sequence and head.
std::string ProjectionsText(const ExplainedCall& call, const ExplainSettings& settings) {
  const InputNames& names = settings.names;
  const std::string k_name = call.inputs_k ? names.inputs_k : names.inputs_q;
  const Numbers& inputs_k = call.inputs_k ? *call.inputs_k : call.inputs_q;
  const Numbers& inputs_v = call.inputs_v ? *call.inputs_v : inputs_k;
  const std::string v_name = call.inputs_v ? names.inputs_v : k_name;
  const int64_t head = settings.spot.head;
  const bool normalized = call.weight_set && call.weight_set->normalize_qk;
  const Projection projections[] = {
      {"query", names.inputs_q, call.inputs_q, call.query, head, normalized},
      {"key", k_name, inputs_k, call.key, call.KvHead(head), normalized},
      {"value", v_name, inputs_v, call.value, call.KvHead(head), false},
  };
  std::string text = ProjectionsTitle(call, settings.spot);
  for (const Projection& projection : projections) {
    text += Equation(call, projection) + HeadRows(projection, settings);
  }
  return text;
}

std::string CheckText(const ExplainedCall& call) {
  if (call.kv_length == 0) return "";
  const Differences differences = CompareByHand(call);
  std::string text = absl::StrCat("check: all rows recalculated in float64, each step from the server's result of the ",
                                  "step before\n       largest |difference|: scores ", differences.scores);
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
                      RowText(call, settings), "\n", TensorText("output", call.output, settings.limits),
                      CheckText(call));
}

}  // namespace attention::cli
