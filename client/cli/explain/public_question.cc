#include "client/cli/explain/public_question.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/cli/explain/hand_calculation.h"

namespace attention::cli {
namespace {

Tensor MakeTensor(const std::vector<float>& values) {
  Tensor tensor{DataType::kFloat32, {1, 2, 3}, {}};
  tensor.bytes.assign(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float));
  return tensor;
}

std::string RangeText(absl::string_view what, const Numbers& numbers) {
  const auto [least, greatest] = std::minmax_element(numbers.values.begin(), numbers.values.end());
  if (*least == *greatest) return absl::StrCat("every ", what, " ", FormatNumber(*least));
  return absl::StrCat(what, "s from ", FormatNumber(*least), " to ", FormatNumber(*greatest));
}

// "every output 3.9975274; the same steps in float64 give 3.9975274". They may differ in the last digit, since the
// server rounds each step to float32. With bfloat16 the output is rounded once more than the context, so both are
// printed.
std::string Result(const ExplainedCall& call) {
  const std::string context = call.rounds_to_bfloat16 ? absl::StrCat(RangeText("context", call.context), ", ") : "";
  return absl::StrCat(context, RangeText("output", call.output), "; the same steps in float64 give ",
                      FormatNumber(Float64Context(call, {}, 0)), "\n");
}

std::string ManualResult(const ExplainedCall& call) {
  const Spot spot;
  std::vector<std::string> weights, rounded, products;
  for (int64_t j = 0; j < call.kv_length; ++j) {
    const double weight = call.AttnWeightsAt(spot)[j];
    weights.push_back(FormatNumber(weight));
    rounded.push_back(FormatNumber(RoundToBFloat16(weight)));
    products.push_back(absl::StrCat(rounded.back(), " · ", FormatNumber(call.ValueAt(spot, j)[0])));
  }
  const std::string result = FormatNumber(BFloat16Context(call, spot, 0));
  const std::string place = call.rounds_to_bfloat16 ? ", is the context of A" : ", is neither of the two";
  const std::string hint =
      call.rounds_to_bfloat16
          ? ""
          : "\n(With --compute-dtype bfloat16 the server does the same, and its context is this number.)\n";
  return absl::StrCat("The question's own result, ", result, place,
                      ". It was calculated on a TPU, which by default\nmultiplies matrices in bfloat16: the attention "
                      "weights ",
                      absl::StrJoin(weights, " and "), "\nwere rounded to ", absl::StrJoin(rounded, " and "),
                      " before they were multiplied by the values:\n\n  ", absl::StrJoin(products, " + "), " = ",
                      result, "\n", hint);
}

}  // namespace

PublicQuestion MakePublicQuestion() {
  return {.src = MakeTensor({2, 1, 1, 1, 1, 1}), .dst = MakeTensor({1, 1, 1, 1, 1, 1})};
}

absl::StatusOr<std::string> ExplainPublicQuestion(const ExplainedCall& from_dst, const ExplainedCall& from_src,
                                                  const PrintLimits& limits) {
  const absl::StatusOr<std::string> first =
      ExplainSteps(from_dst, {{}, limits, {.inputs_q = "dst", .inputs_k = "src"}});
  if (!first.ok()) return first.status();
  const absl::StatusOr<std::string> second =
      ExplainSteps(from_src, {{}, limits, {.inputs_q = "src", .inputs_k = "dst"}});
  if (!second.ok()) return second.status();
  return absl::StrCat(
      "The public question: an attention layer takes (inputs_q, inputs_kv), and the caller has src and dst. Which goes "
      "where?\n"
      "The demo weights make every number easy to check: the query, key and value kernels are ones, the output kernel "
      "is "
      "the\n"
      "identity, and the biases are zeros. The formula:\n\n",
      FormulaText(), "\n======== A. inputs_q = dst, inputs_k = src ========\n\n", *first,
      "\n======== B. exchanged: inputs_q = src, inputs_k = dst ========\n\n", *second, "\n======== Result ========\n\n",
      "  A. inputs_q = dst, inputs_k = src (queries from dst, keys and values from src):\n     ", Result(from_dst),
      "  B. inputs_q = src, inputs_k = dst (queries from src, keys and values from dst):\n     ", Result(from_src),
      "\n", ManualResult(from_dst));
}

double Float64Context(const ExplainedCall& call, const Spot& spot, int64_t element) {
  const std::vector<double> weights = CalculateByHand(call, spot).attn_weights;
  double sum = 0;
  for (int64_t j = 0; j < call.kv_length; ++j) sum += weights[j] * call.ValueAt(spot, j)[element];
  return sum;
}

double BFloat16Context(const ExplainedCall& call, const Spot& spot, int64_t element) {
  float sum = 0;
  for (int64_t j = 0; j < call.kv_length; ++j) {
    sum += static_cast<float>(RoundToBFloat16(call.AttnWeightsAt(spot)[j]) *
                              RoundToBFloat16(call.ValueAt(spot, j)[element]));
  }
  return sum;
}

}  // namespace attention::cli
