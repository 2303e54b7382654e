#include "client/cli/explain/explain_scores.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/cli/head_axes.h"
#include "client/cli/number_format.h"

namespace attention::cli {
namespace {

int64_t LengthOf(const std::vector<int64_t>& lengths, const Spot& spot, int64_t length) {
  return lengths.empty() ? length : lengths[spot.sequence];
}

int64_t Offset(const ExplainedCall& call, const Spot& spot, const Diagonal& diagonal) {
  if (const int64_t* offset = std::get_if<int64_t>(&diagonal)) return *offset;
  if (std::get<Corner>(diagonal) == Corner::kTopLeft) return 0;
  return LengthOf(call.mask.kv_lengths, spot, call.kv_length) - LengthOf(call.mask.q_lengths, spot, call.q_length);
}

// "bottom-right, offset 2"
std::string DiagonalText(const ExplainedCall& call, const Spot& spot, const Diagonal& diagonal) {
  const Corner* corner = std::get_if<Corner>(&diagonal);
  const char* name = corner == nullptr ? "" : *corner == Corner::kTopLeft ? "top-left, " : "bottom-right, ";
  return absl::StrCat(name, "offset ", Offset(call, spot, diagonal));
}

std::string CausalText(const ExplainedCall& call, const Spot& spot) {
  const Diagonal& diagonal = *call.mask.causal;
  return absl::StrCat("      causal (", DiagonalText(call, spot, diagonal), "): keys up to ", spot.row,
                      " + offset = ", spot.row + Offset(call, spot, diagonal), "\n");
}

std::string WindowText(const ExplainedCall& call, const Spot& spot) {
  const SlidingWindow& window = *call.mask.window;
  const int64_t opposite = spot.row + Offset(call, spot, window.diagonal);
  const std::string first = window.left == -1 ? "the first" : absl::StrCat(opposite - window.left);
  const std::string last = window.right == -1 ? "the last" : absl::StrCat(opposite + window.right);
  return absl::StrCat("      window (", DiagonalText(call, spot, window.diagonal), "): keys from ", first, " to ", last,
                      "\n");
}

double SegmentOf(const Numbers& ids, const Spot& spot, int64_t length, int64_t i) {
  const bool for_all_rows = static_cast<int64_t>(ids.values.size()) == length;
  return ids.values[(for_all_rows ? 0 : spot.sequence * length) + i];
}

std::string SegmentsText(const ExplainedCall& call, const Spot& spot) {
  const double segment = SegmentOf(*call.mask.q_segment_ids, spot, call.q_length, spot.row);
  int64_t keys = 0;
  for (int64_t j = 0; j < call.kv_length; ++j) {
    keys += SegmentOf(*call.mask.kv_segment_ids, spot, call.kv_length, j) == segment ? 1 : 0;
  }
  return absl::StrCat("      segment ids: this query is in segment ", static_cast<int64_t>(segment), ", as ",
                      CountOf(keys, "key"), "\n");
}

std::string BroadcastText(const char* name, const std::vector<int64_t>& shape, const ExplainedCall& call) {
  return absl::StrCat("      ", name, " ", FormatShape(shape), ", broadcast to ", FormatShape(call.scores.shape), "\n");
}

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

std::string MaskPartsText(const ExplainedCall& call, const Spot& spot) {
  const ExplainedMask& mask = call.mask;
  std::string text;
  if (call.bias) text += BroadcastText("bias", call.bias->shape, call);
  if (mask.dense_shape) text += BroadcastText("mask", *mask.dense_shape, call);
  if (mask.causal) text += CausalText(call, spot);
  if (mask.window) text += WindowText(call, spot);
  if (!mask.kv_lengths.empty()) {
    absl::StrAppend(&text, "      kv_lengths: the first ", mask.kv_lengths[spot.sequence], " of ",
                    CountOf(call.kv_length, "key"), "\n");
  }
  if (mask.q_segment_ids && mask.kv_segment_ids) text += SegmentsText(call, spot);
  return text;
}

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
