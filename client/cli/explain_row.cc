#include "client/cli/explain_row.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/cli/hand_calculation.h"

namespace attention::cli {
namespace {

// Of one dot product; a longer line would not fit on a screen.
constexpr int64_t kShownProducts = 4;

// What each step below needs.
struct Row {
  const ExplainedCall& call;
  const Spot& spot;
  const PrintLimits& limits;
  const RowByHand& by_hand;
};

// Calls `line` for each key that is shown, and joins what it gives.
template <typename Line>
std::string ForShownKeys(const Row& row, Line line) {
  std::string text;
  for (int64_t j : ShownIndices(row.call.kv_length, row.limits.max_rows)) {
    if (j == kEllipsis) {
      text += "      …\n";
    } else {
      absl::StrAppend(&text, "      ", line(j), "\n");
    }
  }
  return text;
}

// "[24.0, hidden, 18.0]"
std::string ScoresWithMask(const Row& row) {
  const absl::Span<const double> scores = row.call.ScoresAt(row.spot);
  std::vector<std::string> parts;
  for (int64_t j : ShownIndices(row.call.kv_length, row.limits.max_columns)) {
    if (j == kEllipsis) {
      parts.push_back("…");
    } else {
      parts.push_back(row.call.VisibleAt(row.spot, j) ? FormatNumber(scores[j]) : "hidden");
    }
  }
  return absl::StrCat("[", absl::StrJoin(parts, ", "), "]");
}

// "3.0·4.0 + … + 3.0·(-4.0)"
std::string Products(absl::Span<const double> a, absl::Span<const double> b, int64_t max_columns) {
  std::vector<std::string> parts;
  for (int64_t i : ShownIndices(a.size(), max_columns)) {
    if (i == kEllipsis) {
      parts.push_back("…");
      continue;
    }
    const std::string factor = FormatNumber(b[i]);
    parts.push_back(absl::StrCat(FormatNumber(a[i]), "·", b[i] < 0 ? absl::StrCat("(", factor, ")") : factor));
  }
  return absl::StrJoin(parts, " + ");
}

std::string ScoresStep(const Row& row) {
  const absl::Span<const double> query = row.call.QueryAt(row.spot);
  const int64_t columns = row.limits.max_columns;
  std::string text = absl::StrCat("3. Scores: query row ", row.spot.row, " with every key, / √head_dim = √",
                                  row.call.head_dim, "\n      q   = ", FormatVector(query, columns), "\n");
  text += ForShownKeys(row, [&](int64_t j) {
    const absl::Span<const double> key = row.call.KeyAt(row.spot, j);
    return absl::StrCat("k_", j, " = ", FormatVector(key, columns), "\n        q·k_", j, " = ",
                        Products(query, key, kShownProducts), " = ", FormatNumber(row.by_hand.products[j]), ", / √",
                        row.call.head_dim, " = ", FormatNumber(row.by_hand.scores[j]));
  });
  return absl::StrCat(text, "   scores = ", FormatVector(row.call.ScoresAt(row.spot), columns), "\n\n");
}

std::string MaskStep(const Row& row) {
  if (!row.call.mask) return "4. Mask: none given, so every query sees every key\n\n";
  int64_t visible = 0;
  for (int64_t j = 0; j < row.call.kv_length; ++j) visible += row.call.VisibleAt(row.spot, j);
  return absl::StrCat("4. Mask ", FormatShape(row.call.mask->shape), ", broadcast to ",
                      FormatShape(row.call.scores.shape), ": this row sees ", visible, " of ",
                      CountOf(row.call.kv_length, "key"), "\n   scores = ", ScoresWithMask(row), "\n\n");
}

std::string SoftmaxStep(const Row& row) {
  const std::string weights = FormatVector(row.call.AttnWeightsAt(row.spot), row.limits.max_columns);
  if (row.call.SeesNoKey(row.spot)) {
    return absl::StrCat("5. Softmax: the row sees no key, so all ", CountOf(row.call.kv_length, "key"),
                        " get the same weight\n   attn_weights = ", weights, "\n\n");
  }
  const std::string largest = FormatNumber(row.by_hand.largest);
  const absl::Span<const double> scores = row.call.ScoresAt(row.spot);
  std::string text = absl::StrCat("5. Softmax: exp(score - largest score) for each key, divided by their sum\n");
  text += ForShownKeys(row, [&](int64_t j) {
    if (!row.call.VisibleAt(row.spot, j)) return absl::StrCat("key ", j, ": hidden, weight 0");
    return absl::StrCat("key ", j, ": exp(", FormatNumber(scores[j]), " - ", largest,
                        ") = ", FormatNumber(row.by_hand.exponentials[j]),
                        ", / sum = ", FormatNumber(row.by_hand.attn_weights[j]));
  });
  return absl::StrCat(text, "      sum = ", FormatNumber(row.by_hand.sum), "\n   attn_weights = ", weights, "\n\n");
}

std::string ContextStep(const Row& row) {
  const absl::Span<const double> weights = row.call.AttnWeightsAt(row.spot);
  const int64_t columns = row.limits.max_columns;
  std::string text = "6. Context: the values, each times its weight, added up\n";
  text += ForShownKeys(row, [&](int64_t j) {
    return absl::StrCat(j == 0 ? "  " : "+ ", FormatNumber(weights[j]), " · ",
                        FormatVector(row.call.ValueAt(row.spot, j), columns));
  });
  return absl::StrCat(text, "      = ", FormatVector(row.by_hand.context, columns),
                      "\n   context = ", FormatVector(row.call.ContextAt(row.spot), columns), "\n\n");
}

std::string OutputStep(const ExplainedCall& call, const ExplainSettings& settings) {
  const int64_t kernel[] = {call.num_heads, call.head_dim, call.weight_set.out_features};
  const std::string heads = call.num_heads == 1 ? "" : absl::StrCat(" (all ", call.num_heads, " heads together)");
  return absl::StrCat("7. Output row ", settings.spot.row, ": context [", call.num_heads, ", ", call.head_dim, "]",
                      heads, " · out_kernel ", FormatShape(kernel), " + out_bias\n   output = ",
                      FormatVector(call.OutputAt(settings.spot), settings.limits.max_columns), "\n");
}

}  // namespace

std::string RowText(const ExplainedCall& call, const ExplainSettings& settings) {
  if (call.kv_length == 0) {
    return absl::StrCat("3. No key: nothing is asked, context is 0, and only out_bias remains\n\n",
                        OutputStep(call, settings));
  }
  const RowByHand by_hand = CalculateByHand(call, settings.spot);
  const Row row{call, settings.spot, settings.limits, by_hand};
  return absl::StrCat(ScoresStep(row), MaskStep(row), SoftmaxStep(row), ContextStep(row), OutputStep(call, settings));
}

}  // namespace attention::cli
