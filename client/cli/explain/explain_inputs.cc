#include "client/cli/explain/explain_inputs.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "client/cli/tensor_printer.h"

namespace attention::cli {
namespace {

std::string InputText(const std::string& name, const Numbers& tensor, const PrintLimits& limits) {
  const std::string head = absl::StrCat("   ", name, " ", FormatShape(tensor.shape), " = ");
  return absl::StrCat(head, PrintTensor(tensor, limits, head.size()), "\n");
}

std::string RolesText(const ExplainedCall& call, const InputNames& names) {
  const std::string asking = absl::StrCat(CountOf(call.q_length, "row"), call.q_length == 1 ? " asks" : " ask");
  const std::string asked =
      absl::StrCat(CountOf(call.kv_length, "row"), call.kv_length == 1 ? " is" : " are", " asked");
  const std::string queries = absl::StrCat("   ", names.inputs_q, " -> queries (", asking, ")\n");
  if (!call.inputs_k) {
    return absl::StrCat(queries, "   inputs_k and inputs_v left out, so ", names.inputs_q,
                        " again -> keys and values (", asked, "): self-attention\n");
  }
  if (!call.inputs_v) {
    return absl::StrCat(queries, "   ", names.inputs_k, ", and inputs_v left out, so the same -> keys and values (",
                        asked, ")\n");
  }
  return absl::StrCat(queries, "   ", names.inputs_k, " -> keys (", asked, ")\n   ", names.inputs_v,
                      " -> values (what the asked rows answer)\n");
}

bool HasParameter(const ExplainedCall& call, absl::string_view name) {
  const std::vector<ParameterInfo>& parameters = call.weight_set->parameters;
  return std::any_of(parameters.begin(), parameters.end(),
                     [&](const ParameterInfo& parameter) { return absl::string_view(parameter.name) == name; });
}

struct Projection {
  std::string name;   // "query"
  std::string input;  // as the caller calls it
  const Numbers& from;
  const Numbers& to;  // [batch…, length, heads, width]
  int64_t head;       // that is shown
  bool normalized;    // by the weight set's LayerNorm
};

// "query = dst [1, 2, 3] · query_kernel [3, 1, 4] + query_bias [1, 4] -> [1, 2, 1, 4]"
std::string Equation(const ExplainedCall& call, const Projection& projection) {
  const std::string& name = projection.name;
  const std::string from = absl::StrCat(projection.input, " ", FormatShape(projection.from.shape));
  const std::string to = absl::StrCat(" -> ", FormatShape(projection.to.shape), "\n");
  if (!call.weight_set) return absl::StrCat("   ", name, " = ", from, to);
  const int64_t heads = projection.to.shape.end()[-2], width = projection.to.shape.back();
  const bool has_bias = HasParameter(call, absl::StrCat(name, "/bias"));
  const std::string bias = has_bias ? absl::StrCat(" + ", name, "_bias ", FormatShape({heads, width})) : "";
  const std::string product =
      absl::StrCat(from, " · ", name, "_kernel ", FormatShape({projection.from.shape.back(), heads, width}), bias);
  return absl::StrCat("   ", name, " = ", projection.normalized ? absl::StrCat("LayerNorm(", product, ")") : product,
                      to);
}

std::string HeadRows(const Projection& projection, const ExplainSettings& settings) {
  std::string text;
  for (int64_t i : ShownIndices(projection.to.shape.end()[-3], settings.limits.max_rows)) {
    if (i == kEllipsis) {
      text += "      …\n";
      continue;
    }
    const auto row = ExplainedCall::Vector(projection.to, settings.spot, i, projection.head);
    absl::StrAppend(&text, "      ", projection.name, "_", i, " = ", FormatVector(row, settings.limits.max_columns),
                    "\n");
  }
  return text;
}

// "2. Projections: one vector of head_dim = 4 numbers a row and head; here head 1 of 2, sequence 0 of 3"
std::string ProjectionsTitle(const ExplainedCall& call, const Spot& spot) {
  std::string text =
      absl::StrCat(call.weight_set ? "2. Projections" : "2. No projections, the inputs are query, key and value",
                   ": one vector of head_dim = ", call.head_dim, " numbers");
  if (call.value_head_dim != call.head_dim) {
    absl::StrAppend(&text, " (for values value_head_dim = ", call.value_head_dim, ")");
  }
  text += " a row and head";
  if (call.num_heads > 1) absl::StrAppend(&text, "; here head ", spot.head, " of ", call.num_heads);
  if (call.num_kv_heads != call.num_heads) {
    absl::StrAppend(&text, ", which meets head ", call.KvHead(spot.head), " of ", call.num_kv_heads,
                    " of keys and values");
  }
  if (call.batch > 1) absl::StrAppend(&text, ", sequence ", spot.sequence, " of ", call.batch);
  return text + "\n";
}

}  // namespace

std::string InputsText(const ExplainedCall& call, const ExplainSettings& settings) {
  const InputNames& names = settings.names;
  std::string text =
      absl::StrCat("1. Who asks, and who is asked\n", InputText(names.inputs_q, call.inputs_q, settings.limits));
  if (call.inputs_k) text += InputText(names.inputs_k, *call.inputs_k, settings.limits);
  if (call.inputs_v) text += InputText(names.inputs_v, *call.inputs_v, settings.limits);
  return text + RolesText(call, names);
}

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

}  // namespace attention::cli
