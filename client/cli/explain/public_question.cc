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

std::string Range(absl::string_view what, const Numbers& numbers) {
  const auto [least, greatest] = std::minmax_element(numbers.values.begin(), numbers.values.end());
  if (*least == *greatest) return absl::StrCat("every ", what, " ", FormatNumber(*least));
  return absl::StrCat(what, "s from ", FormatNumber(*least), " to ", FormatNumber(*greatest));
}

// "every output 3.9975274; the same steps in float64 give 3.9975274". The server rounds each step to float32, which can
// show in the last digit. Under bfloat16 the output has been rounded once more than the context, so that both are told.
std::string Result(const ExplainedCall& call) {
  const std::string context = call.rounds_to_bfloat16 ? absl::StrCat(Range("context", call.context), ", ") : "";
  return absl::StrCat(context, Range("output", call.output), "; the same steps in float64 give ",
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
  const std::string place = call.rounds_to_bfloat16 ? ", is the context of A: it came from a TPU, which\n"
                                                    : ", is neither of the two: it came from a TPU, which\n";
  const std::string hint =
      call.rounds_to_bfloat16 ? "" : "\n(--compute-dtype bfloat16 computes it so, and gives this number as context.)\n";
  return absl::StrCat("The question's own result by hand, ", result, place,
                      "multiplies matrices in bfloat16 unless told otherwise, so that the softmax weights\n",
                      absl::StrJoin(weights, " and "), " were rounded to ", absl::StrJoin(rounded, " and "),
                      "\nbefore they met the values:\n\n  ", absl::StrJoin(products, " + "), " = ", result, "\n", hint);
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
      "The public question: a layer takes (inputs_q, inputs_kv), its caller has src and dst. Which goes where?\n",
      "The weight set has kernels of ones for query, key and value, the identity for the output, and zero biases, so "
      "that\n"
      "every number below can be checked in the head. The formula:\n\n",
      FormulaText(), "\n======== A. inputs_q = dst, inputs_k = src ========\n\n", *first,
      "\n======== B. exchanged: inputs_q = src, inputs_k = dst ========\n\n", *second, "\n======== Result ========\n\n",
      "  A. inputs_q = dst, inputs_k = src (dst asks, src answers): ", Result(from_dst),
      "  B. inputs_q = src, inputs_k = dst (src asks, dst answers): ", Result(from_src), "\n", ManualResult(from_dst));
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
