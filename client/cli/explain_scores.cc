#include "client/cli/explain_scores.h"

#include "absl/strings/str_join.h"
#include "client/cli/explain_mask.h"

namespace attention::cli {
namespace {

// Of one dot product; a longer line would not fit on a screen.
constexpr int64_t kShownProducts = 4;

// A number after a sign of operation.
std::string Factor(double value) {
  const std::string text = FormatNumber(value);
  return value < 0 ? absl::StrCat("(", text, ")") : text;
}

// "3.0·4.0 + … + 3.0·(-4.0)"
std::string Products(absl::Span<const double> a, absl::Span<const double> b, int64_t max_columns) {
  std::vector<std::string> parts;
  for (int64_t i : ShownIndices(a.size(), max_columns)) {
    parts.push_back(i == kEllipsis ? "…" : absl::StrCat(FormatNumber(a[i]), "·", Factor(b[i])));
  }
  return absl::StrJoin(parts, " + ");
}

// "3. Scores: query row 0 with every key, / √head_dim = √4"
std::string ScoresTitle(const ExplainedRow& row) {
  const ExplainedCall& call = row.call;
  const std::string title = absl::StrCat("3. Scores: query row ", row.spot.row);
  if (call.rounds_to_bfloat16) {
    return absl::StrCat(title, ", times scale = ", FormatNumber(call.scale),
                        ", with every key, both rounded to bfloat16\n");
  }
  if (call.scale_is_default) return absl::StrCat(title, " with every key, / √head_dim = √", call.head_dim, "\n");
  return absl::StrCat(title, " with every key, times scale = ", FormatNumber(call.scale), "\n");
}

// What becomes of one product: ", / √4 = 24.0"
std::string ScaleText(const ExplainedRow& row, int64_t j) {
  if (row.call.rounds_to_bfloat16) return "";
  const std::string score = FormatNumber(row.by_hand.scores[j]);
  if (row.call.scale_is_default) return absl::StrCat(", / √", row.call.head_dim, " = ", score);
  return absl::StrCat(", · ", Factor(row.call.scale), " = ", score);
}

std::string SoftcapText(const ExplainedRow& row) {
  if (!row.call.softcap) return "";
  const std::string cap = FormatNumber(*row.call.softcap);
  const absl::Span<const double> scores = row.call.ScoresAt(row.spot);
  const std::string lines = ForShownKeys(row, [&](int64_t j) {
    return absl::StrCat("key ", j, ": ", cap, " · tanh(", FormatNumber(scores[j]), " / ", cap,
                        ") = ", FormatNumber(row.by_hand.capped_scores[j]));
  });
  return absl::StrCat("   Soft cap: no score beyond ", cap, "\n", lines,
                      "   capped_scores = ", FormatVector(row.call.CappedScoresAt(row.spot), row.limits.max_columns),
                      "\n");
}

// "[24.0, hidden, 18.0]"
std::string MaskedScores(const ExplainedRow& row) {
  const absl::Span<const double> scores = row.call.MaskedScoresAt(row.spot);
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

std::string BiasSums(const ExplainedRow& row) {
  if (!row.call.bias) return "";
  const absl::Span<const double> scores = row.call.CappedScoresAt(row.spot);
  return ForShownKeys(row, [&](int64_t j) {
    if (!row.call.VisibleAt(row.spot, j)) return absl::StrCat("key ", j, ": hidden");
    return absl::StrCat("key ", j, ": ", FormatNumber(scores[j]), " + ", Factor(row.call.BiasAt(row.spot, j)), " = ",
                        FormatNumber(row.by_hand.masked_scores[j]));
  });
}

}  // namespace

std::string ScoresText(const ExplainedRow& row) {
  const int64_t columns = row.limits.max_columns;
  std::string text = absl::StrCat(ScoresTitle(row), "      q   = ", FormatVector(row.by_hand.query, columns), "\n");
  text += ForShownKeys(row, [&](int64_t j) {
    std::vector<double> key;
    for (const double number : row.call.KeyAt(row.spot, j)) key.push_back(Operand(number, row.call.rounds_to_bfloat16));
    return absl::StrCat("k_", j, " = ", FormatVector(key, columns), "\n        q·k_", j, " = ",
                        Products(row.by_hand.query, key, kShownProducts), " = ", FormatNumber(row.by_hand.products[j]),
                        ScaleText(row, j));
  });
  return absl::StrCat(text, "   scores = ", FormatVector(row.call.ScoresAt(row.spot), columns), "\n", SoftcapText(row),
                      "\n");
}

std::string MaskText(const ExplainedRow& row) {
  const std::string parts = MaskPartsText(row.call, row.spot);
  const int64_t visible = row.call.VisibleKeys(row.spot);
  if (parts.empty() && visible == row.call.kv_length) return "4. Mask: none given, so every query sees every key\n\n";
  return absl::StrCat("4. ", row.call.bias ? "Bias and mask" : "Mask", ": this row sees ", visible, " of ",
                      CountOf(row.call.kv_length, "key"), "\n", parts, BiasSums(row),
                      "   masked_scores = ", MaskedScores(row), "\n\n");
}

}  // namespace attention::cli
