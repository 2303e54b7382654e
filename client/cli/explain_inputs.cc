#include "client/cli/explain_inputs.h"

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
  return std::any_of(call.weight_set.parameters.begin(), call.weight_set.parameters.end(),
                     [&](const ParameterInfo& parameter) { return absl::string_view(parameter.name) == name; });
}

struct Projection {
  std::string name;   // "query"
  std::string input;  // as the caller calls it
  const Numbers& from;
  const Numbers& to;
  int64_t length;
};

// "query = dst [1, 2, 3] · query_kernel [3, 1, 4] + query_bias [1, 4] -> [1, 2, 1, 4]"
std::string Equation(const ExplainedCall& call, const Projection& projection) {
  const bool has_bias = HasParameter(call, absl::StrCat(projection.name, "/bias"));
  const int64_t kernel[] = {projection.from.shape.back(), call.num_heads, call.head_dim};
  const std::string bias = absl::StrCat(" + ", projection.name, "_bias ", FormatShape({call.num_heads, call.head_dim}));
  return absl::StrCat("   ", projection.name, " = ", projection.input, " ", FormatShape(projection.from.shape), " · ",
                      projection.name, "_kernel ", FormatShape(kernel), has_bias ? bias : "", " -> ",
                      FormatShape(projection.to.shape), "\n");
}

std::string HeadRows(const ExplainedCall& call, const Projection& projection, const ExplainSettings& settings) {
  const Spot& spot = settings.spot;
  std::string text;
  for (int64_t i : ShownIndices(projection.length, settings.limits.max_rows)) {
    if (i == kEllipsis) {
      text += "      …\n";
      continue;
    }
    const int64_t offset = ((spot.sequence * projection.length + i) * call.num_heads + spot.head) * call.head_dim;
    const auto row = absl::MakeConstSpan(projection.to.values).subspan(offset, call.head_dim);
    absl::StrAppend(&text, "      ", projection.name, "_", i, " = ", FormatVector(row, settings.limits.max_columns),
                    "\n");
  }
  return text;
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
  const Projection projections[] = {
      {"query", names.inputs_q, call.inputs_q, call.query, call.q_length},
      {"key", k_name, inputs_k, call.key, call.kv_length},
      {"value", call.inputs_v ? names.inputs_v : k_name, call.inputs_v ? *call.inputs_v : inputs_k, call.value,
       call.kv_length},
  };
  std::string text =
      absl::StrCat("2. Projections: one vector of head_dim = ", call.head_dim, " numbers a row and head");
  if (call.num_heads > 1) absl::StrAppend(&text, "; here head ", settings.spot.head, " of ", call.num_heads);
  if (call.batch > 1) absl::StrAppend(&text, ", sequence ", settings.spot.sequence, " of ", call.batch);
  text += "\n";
  for (const Projection& projection : projections) {
    text += Equation(call, projection) + HeadRows(call, projection, settings);
  }
  return text;
}

}  // namespace attention::cli
