#include "client/cli/explain_row.h"

#include "absl/strings/str_cat.h"
#include "client/cli/explain_scores.h"
#include "client/cli/head_axes.h"

namespace attention::cli {
namespace {

std::string EmptyRowText(const ExplainedRow& row) {
  if (row.call.empty_rows == EmptyRows::kZero) {
    return "5. Softmax: the row sees no key, so every weight is 0 (empty_rows ZERO)\n";
  }
  return absl::StrCat("5. Softmax: the row sees no key, so all ", CountOf(row.call.kv_length, "key"),
                      " get the same weight (empty_rows UNIFORM)\n");
}

std::string ExponentialsText(const ExplainedRow& row) {
  const std::string largest = FormatNumber(row.by_hand.largest);
  const absl::Span<const double> scores = row.call.MaskedScoresAt(row.spot);
  const std::string lines = ForShownKeys(row, [&](int64_t j) {
    if (!row.call.VisibleAt(row.spot, j)) return absl::StrCat("key ", j, ": hidden, weight 0");
    return absl::StrCat("key ", j, ": exp(", FormatNumber(scores[j]), " - ", largest,
                        ") = ", FormatNumber(row.by_hand.exponentials[j]),
                        ", / sum = ", FormatNumber(row.by_hand.attn_weights[j]));
  });
  return absl::StrCat("5. Softmax: exp(score - largest score) for each key, divided by their sum\n", lines,
                      "      sum = ", FormatNumber(row.by_hand.sum), "\n");
}

std::string SoftmaxStep(const ExplainedRow& row) {
  return absl::StrCat(row.call.VisibleKeys(row.spot) == 0 ? EmptyRowText(row) : ExponentialsText(row),
                      "   attn_weights = ", FormatVector(row.call.AttnWeightsAt(row.spot), row.limits.max_columns),
                      "\n\n");
}

std::string ContextStep(const ExplainedRow& row) {
  const ExplainedCall& call = row.call;
  const int64_t columns = row.limits.max_columns;
  const bool rounds = RoundsValues(call, row.spot);
  std::string text = absl::StrCat("6. Context: the values, each times its weight, ",
                                  rounds ? "both rounded to bfloat16, " : "", "added up\n");
  text += ForShownKeys(row, [&](int64_t j) {
    std::vector<double> value;
    for (const double number : call.ValueAt(row.spot, j)) value.push_back(Operand(number, rounds));
    return absl::StrCat(j == 0 ? "  " : "+ ", FormatNumber(Operand(call.AttnWeightsAt(row.spot)[j], rounds)), " · ",
                        FormatVector(value, columns));
  });
  return absl::StrCat(text, "      = ", FormatVector(row.by_hand.context, columns),
                      "\n   context = ", FormatVector(call.ContextAt(row.spot), columns), "\n\n");
}

std::string OutputStep(const ExplainedCall& call, const ExplainSettings& settings) {
  const std::string output =
      absl::StrCat("\n   output = ", FormatVector(call.OutputAt(settings.spot), settings.limits.max_columns), "\n");
  const std::string title = absl::StrCat("7. Output row ", settings.spot.row, ": ");
  if (!call.weight_set) {
    const std::string head = call.num_heads == 1 ? "" : absl::StrCat("; here head ", settings.spot.head);
    return absl::StrCat(title, "the context itself, as ", AxesText(call.axes), head, output);
  }
  const int64_t kernel[] = {call.num_heads, call.value_head_dim, call.weight_set->out_features};
  const std::string heads = call.num_heads == 1 ? "" : absl::StrCat(" (all ", call.num_heads, " heads together)");
  return absl::StrCat(title, "context [", call.num_heads, ", ", call.value_head_dim, "]", heads, " · out_kernel ",
                      FormatShape(kernel), call.rounds_to_bfloat16 ? " (both rounded to bfloat16)" : "", " + out_bias",
                      output);
}

}  // namespace

std::string RowText(const ExplainedCall& call, const ExplainSettings& settings) {
  const Spot& spot = settings.spot;
  if (!call.IsComputed(spot)) {
    return absl::StrCat("3. Row ", spot.row, " lies behind the ", call.mask.q_lengths[spot.sequence],
                        " queries of its sequence (q_lengths): it is not computed, and all its numbers are 0\n");
  }
  if (call.kv_length == 0) {
    return absl::StrCat("3. No key: nothing is asked, context is 0",
                        call.weight_set ? ", and only out_bias remains\n\n" : "\n\n", OutputStep(call, settings));
  }
  const RowByHand by_hand = CalculateByHand(call, spot);
  const ExplainedRow row{call, spot, settings.limits, by_hand};
  return absl::StrCat(ScoresText(row), MaskText(row), SoftmaxStep(row), ContextStep(row), OutputStep(call, settings));
}

}  // namespace attention::cli
