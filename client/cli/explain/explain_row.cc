#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/cli/explain/explain_steps.h"
#include "client/cli/explain/hand_calculation.h"

namespace attention::cli {
namespace {

// The row to explain, and the same row calculated by hand.
struct ExplainedRow {
  const ExplainedCall& call;
  const Spot& spot;
  const PrintLimits& limits;
  const RowByHand& by_hand;
};

// Joins line(j) of each key j that is shown.
template <typename Line>
std::string ForShownKeys(const ExplainedRow& row, Line line) {
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

int64_t LengthAt(const std::vector<int64_t>& lengths, const Spot& spot, int64_t length) {
  return lengths.empty() ? length : lengths[spot.sequence];
}

int64_t Offset(const ExplainedCall& call, const Spot& spot, const Diagonal& diagonal) {
  if (const int64_t* offset = std::get_if<int64_t>(&diagonal)) return *offset;
  if (std::get<Corner>(diagonal) == Corner::kTopLeft) return 0;
  return LengthAt(call.mask.kv_lengths, spot, call.kv_length) - LengthAt(call.mask.q_lengths, spot, call.q_length);
}

// "bottom-right, offset 2"
std::string DiagonalText(const ExplainedCall& call, const Spot& spot, const Diagonal& diagonal) {
  const Corner* corner = std::get_if<Corner>(&diagonal);
  const char* name = corner == nullptr ? "" : *corner == Corner::kTopLeft ? "top-left, " : "bottom-right, ";
  return absl::StrCat(name, "offset ", Offset(call, spot, diagonal));
}

std::string CausalText(const ExplainedCall& call, const Spot& spot) {
  const Diagonal& diagonal = *call.mask.causal;
  return absl::StrCat("      causal (", DiagonalText(call, spot, diagonal), "): keys up to row ", spot.row,
                      " + offset = ", spot.row + Offset(call, spot, diagonal), "\n");
}

std::string WindowText(const ExplainedCall& call, const Spot& spot) {
  const SlidingWindow& window = *call.mask.window;
  const int64_t center = spot.row + Offset(call, spot, window.diagonal);
  const std::string first = window.left == -1 ? "the first" : absl::StrCat(center - window.left);
  const std::string last = window.right == -1 ? "the last" : absl::StrCat(center + window.right);
  return absl::StrCat("      window (", DiagonalText(call, spot, window.diagonal), "): keys from ", first, " to ", last,
                      "\n");
}

double SegmentOf(const Numbers& ids, const Spot& spot, int64_t length, int64_t i) {
  const bool is_shared = static_cast<int64_t>(ids.values.size()) == length;  // by all sequences
  return ids.values[(is_shared ? 0 : spot.sequence * length) + i];
}

std::string SegmentsText(const ExplainedCall& call, const Spot& spot) {
  const double segment = SegmentOf(*call.mask.q_segment_ids, spot, call.q_length, spot.row);
  int64_t keys = 0;
  for (int64_t j = 0; j < call.kv_length; ++j) {
    keys += SegmentOf(*call.mask.kv_segment_ids, spot, call.kv_length, j) == segment ? 1 : 0;
  }
  return absl::StrCat("      segment ids: this query is in segment ", static_cast<int64_t>(segment), ", which has ",
                      CountOf(keys, "key"), "\n");
}

std::string BroadcastText(const char* name, const std::vector<int64_t>& shape, const ExplainedCall& call) {
  return absl::StrCat("      ", name, " ", FormatShape(shape), ", broadcast to ", FormatShape(call.scores.shape), "\n");
}

// A line for each part of the mask, and for the bias.
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

// Products to show of one dot product. A longer line would not fit on a screen.
constexpr int64_t kShownProducts = 4;

// A number after an operator.
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

// "3. Scores: dot product of query row 0 with each key, divided by √head_dim = √4"
std::string ScoresTitle(const ExplainedRow& row) {
  const ExplainedCall& call = row.call;
  const std::string title = absl::StrCat("3. Scores: dot product of query row ", row.spot.row);
  const std::string scale = absl::StrCat(", times scale = ", FormatNumber(call.scale));
  if (call.rounds_to_bfloat16) return absl::StrCat(title, scale, ", with each key; both rounded to bfloat16\n");
  if (!call.scale_is_default) return absl::StrCat(title, " with each key", scale, "\n");
  return absl::StrCat(title, " with each key, divided by √head_dim = √", call.head_dim, "\n");
}

// From a product to its score: "; 48.0 / √4 = 24.0"
std::string ScaleText(const ExplainedRow& row, int64_t j) {
  if (row.call.rounds_to_bfloat16) return "";
  const std::string product = FormatNumber(row.by_hand.products[j]), score = FormatNumber(row.by_hand.scores[j]);
  if (row.call.scale_is_default) return absl::StrCat("; ", product, " / √", row.call.head_dim, " = ", score);
  return absl::StrCat("; ", product, " · ", Factor(row.call.scale), " = ", score);
}

std::string SoftcapText(const ExplainedRow& row) {
  if (!row.call.softcap) return "";
  const std::string cap = FormatNumber(*row.call.softcap);
  const absl::Span<const double> scores = row.call.ScoresAt(row.spot);
  const std::string lines = ForShownKeys(row, [&](int64_t j) {
    return absl::StrCat("key ", j, ": ", cap, " · tanh(", FormatNumber(scores[j]), " / ", cap,
                        ") = ", FormatNumber(row.by_hand.capped_scores[j]));
  });
  return absl::StrCat("   Soft cap: scores limited to ±", cap, "\n", lines,
                      "   capped_scores = ", FormatVector(row.call.CappedScoresAt(row.spot), row.limits.max_columns),
                      "\n");
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

std::string MaskText(const ExplainedRow& row) {
  const std::string parts = MaskPartsText(row.call, row.spot);
  const int64_t visible = row.call.VisibleKeys(row.spot);
  if (parts.empty() && visible == row.call.kv_length) return "4. Mask: none, so every query sees every key\n\n";
  return absl::StrCat("4. ", row.call.bias ? "Bias and mask" : "Mask", ": this row sees ", visible, " of ",
                      CountOf(row.call.kv_length, "key"), "\n", parts, BiasSums(row),
                      "   masked_scores = ", MaskedScores(row), "\n\n");
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
    return absl::StrCat(
        "key ", j, ": exp(", FormatNumber(scores[j]), " - ", largest, ") = ", FormatNumber(row.by_hand.exponentials[j]),
        "; ", FormatNumber(row.by_hand.exponentials[j]), " / sum = ", FormatNumber(row.by_hand.attn_weights[j]));
  });
  return absl::StrCat("5. Softmax: exp(score - largest score) of each key, divided by the sum\n", lines,
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
  std::string text = absl::StrCat("6. Context: the sum of the values, each multiplied by its weight",
                                  rounds ? "; both rounded to bfloat16\n" : "\n");
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
    const std::string head = call.num_heads == 1 ? "" : absl::StrCat("; shown for head ", settings.spot.head);
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
    return absl::StrCat("3. Row ", spot.row,
                        " is after the end of its sequence (q_lengths: ", call.mask.q_lengths[spot.sequence],
                        "): it is not computed, and all its numbers are 0\n");
  }
  if (call.kv_length == 0) {
    return absl::StrCat("3. There are no keys, so the context is 0",
                        call.weight_set ? " and the output is out_bias\n\n" : "\n\n", OutputStep(call, settings));
  }
  const RowByHand by_hand = CalculateByHand(call, spot);
  const ExplainedRow row{call, spot, settings.limits, by_hand};
  return absl::StrCat(ScoresText(row), MaskText(row), SoftmaxStep(row), ContextStep(row), OutputStep(call, settings));
}

}  // namespace attention::cli
