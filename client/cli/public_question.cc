#include "client/cli/public_question.h"

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/cli/hand_calculation.h"
#include "server/engine/tensor.h"

namespace attention::cli {
namespace {

Tensor MakeTensor(const std::vector<float>& values) {
  Tensor tensor{DataType::kFloat32, {1, 2, 3}, {}};
  tensor.bytes.assign(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float));
  return tensor;
}

// "every output 3.9975274; the same steps in float64 give 3.9975274". The server rounds each step to float32, which can
// show in the last digit.
std::string Result(const ExplainedCall& call) {
  const auto [least, greatest] = std::minmax_element(call.output.values.begin(), call.output.values.end());
  const std::string outputs =
      *least == *greatest ? absl::StrCat("every output ", FormatNumber(*least))
                          : absl::StrCat("outputs from ", FormatNumber(*least), " to ", FormatNumber(*greatest));
  return absl::StrCat(outputs, "; the same steps in float64 give ", FormatNumber(Float64Context(call, {}, 0)), "\n");
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
  return absl::StrCat("The question's own result by hand, ", result,
                      ", is neither of the two: it came from a TPU, which\n",
                      "multiplies matrices in bfloat16 unless told otherwise, so that the softmax weights\n",
                      absl::StrJoin(weights, " and "), " were rounded to ", absl::StrJoin(rounded, " and "),
                      "\nbefore they met the values:\n\n  ", absl::StrJoin(products, " + "), " = ", result, "\n");
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

double RoundToBFloat16(double value) {
  const float number = static_cast<float>(value);
  std::byte bfloat16[2];
  server::FromFloat32(&number, 1, server::DType::kBFloat16, bfloat16);
  float rounded = 0;
  server::ToFloat32(server::DType::kBFloat16, bfloat16, 1, &rounded);
  return rounded;
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
