#include "tests/testing/reference/reference_attention.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

namespace attention::test {
namespace {

using server::EmptyRowRule;
using server::HeadShape;
using server::LayerParameters;

constexpr double kHidden = -std::numeric_limits<double>::infinity();
constexpr double kLayerNormEpsilon = 1e-6;

// Rounds to the nearest bfloat16 number, ties to even. A finite number that is too large for that is not rounded.
double ToBFloat16(double number) {
  const auto rounded = static_cast<float>(number);
  if (!std::isfinite(rounded)) return number;
  uint32_t bits = std::bit_cast<uint32_t>(rounded);
  bits += 0x7fff + ((bits >> 16) & 1);
  const float result = std::bit_cast<float>(bits & 0xffff0000);
  return std::isfinite(result) ? result : number;
}

// Multiplies two numbers in the precision of the request.
class Product {
 public:
  explicit Product(const ReferenceInputs& inputs) : bfloat16_(inputs.bfloat16) {}

  double operator()(double a, double b) const { return bfloat16_ ? ToBFloat16(a) * ToBFloat16(b) : a * b; }

 private:
  const bool bfloat16_;
};

// rows × kernel + bias, kernel [in, out].
std::vector<double> Project(const Product& product, const std::vector<double>& rows, const std::vector<float>& kernel,
                            const std::vector<float>& bias, int64_t out) {
  const int64_t in = static_cast<int64_t>(kernel.size()) / out;
  const int64_t num_rows = static_cast<int64_t>(rows.size()) / in;
  std::vector<double> result(num_rows * out);
  for (int64_t row = 0; row < num_rows; ++row) {
    for (int64_t column = 0; column < out; ++column) {
      double sum = bias.empty() ? 0.0 : bias[column];
      for (int64_t i = 0; i < in; ++i) sum += product(rows[row * in + i], kernel[i * out + column]);
      result[row * out + column] = sum;
    }
  }
  return result;
}

// Applies LayerNorm to every group of scale.size() numbers; does nothing if the scale is empty.
void Normalize(const std::vector<float>& scale, std::vector<double>& numbers) {
  const size_t size = scale.size();
  for (size_t begin = 0; size != 0 && begin < numbers.size(); begin += size) {
    double mean = 0;
    for (size_t i = 0; i < size; ++i) mean += numbers[begin + i] / static_cast<double>(size);
    double variance = 0;
    for (size_t i = 0; i < size; ++i) {
      const double distance = numbers[begin + i] - mean;
      variance += distance * distance / static_cast<double>(size);
    }
    for (size_t i = 0; i < size; ++i) {
      numbers[begin + i] = (numbers[begin + i] - mean) / std::sqrt(variance + kLayerNormEpsilon) * scale[i];
    }
  }
}

// Sets the rows of [batch, q_length, width] after the queries of their sequence to zero.
void ClearRowsAfterQueries(const ReferenceInputs& inputs, int64_t width, std::vector<double>& rows) {
  for (size_t sequence = 0; sequence < inputs.q_lengths.size(); ++sequence) {
    const auto begin = rows.begin() + static_cast<int64_t>(sequence) * inputs.q_length * width;
    std::fill(begin + inputs.q_lengths[sequence] * width, begin + inputs.q_length * width, 0.0);
  }
}

// The lines of the formula between the projections, for one query of one head of one sequence at a time.
class Rows {
 public:
  // REQUIRES: `out` already contains query, key and value.
  Rows(const HeadShape& heads, const ReferenceInputs& inputs, ReferenceOutputs& out)
      : heads_(heads), inputs_(inputs), product_(inputs), out_(out) {
    const int64_t rows = inputs.batch * heads.num_heads * inputs.q_length;
    for (auto* scores : {&out.scores, &out.capped_scores, &out.masked_scores, &out.attn_weights}) {
      scores->resize(rows * inputs.kv_length);
    }
    out.mean_attn_weights.resize(inputs.batch * inputs.q_length * inputs.kv_length);
    out.log_sum_exp.resize(rows);
    out.context.resize(rows * heads.value_head_dim);
  }

  void Attend(int64_t sequence, int64_t head, int64_t query) {
    const int64_t row = (sequence * heads_.num_heads + head) * inputs_.q_length + query;
    Score(sequence, head, query, row * inputs_.kv_length);
    if (!Weigh(row)) FillEmpty(row * inputs_.kv_length);
    double* context =
        &out_.context[((sequence * inputs_.q_length + query) * heads_.num_heads + head) * heads_.value_head_dim];
    double* mean = out_.mean_attn_weights.data() + (sequence * inputs_.q_length + query) * inputs_.kv_length;
    for (int64_t j = 0; j < inputs_.kv_length; ++j) {
      const double weight = out_.attn_weights[row * inputs_.kv_length + j];
      mean[j] += weight / static_cast<double>(heads_.num_heads);
      if (weight == 0) continue;
      const double* value = &out_.value[KvAt(sequence, j, head) * heads_.value_head_dim];
      for (int64_t d = 0; d < heads_.value_head_dim; ++d) context[d] += product_(weight, value[d]);
    }
  }

 private:
  // Index of a key or value in [batch, kv_length, num_kv_heads].
  int64_t KvAt(int64_t sequence, int64_t key, int64_t head) const {
    return (sequence * inputs_.kv_length + key) * heads_.num_kv_heads + head * heads_.num_kv_heads / heads_.num_heads;
  }

  bool IsVisible(int64_t element) const {
    return (inputs_.mask.empty() || inputs_.mask[element] != 0) &&
           (inputs_.bias.empty() || inputs_.bias[element] != kHidden);
  }

  // Computes scores to masked scores; `at` is the index of the row's first element.
  void Score(int64_t sequence, int64_t head, int64_t query, int64_t at) {
    const double scale = inputs_.scale.value_or(1 / std::sqrt(static_cast<double>(heads_.head_dim)));
    const double* q = &out_.query[((sequence * inputs_.q_length + query) * heads_.num_heads + head) * heads_.head_dim];
    for (int64_t j = 0; j < inputs_.kv_length; ++j) {
      const double* k = &out_.key[KvAt(sequence, j, head) * heads_.head_dim];
      double score = 0;
      for (int64_t d = 0; d < heads_.head_dim; ++d) score += product_(q[d] * scale, k[d]);
      const double capped = inputs_.softcap ? *inputs_.softcap * std::tanh(score / *inputs_.softcap) : score;
      out_.scores[at + j] = score;
      out_.capped_scores[at + j] = capped;
      const double bias = inputs_.bias.empty() ? 0.0 : inputs_.bias[at + j];
      out_.masked_scores[at + j] = IsVisible(at + j) ? capped + bias : kHidden;
    }
  }

  // Computes the softmax of a row and its log-sum-exp. Returns false if the row sees no key.
  bool Weigh(int64_t row) {
    const int64_t begin = row * inputs_.kv_length;
    const int64_t end = begin + inputs_.kv_length;
    bool empty = true;
    double largest = kHidden;
    for (int64_t at = begin; at < end; ++at) {
      if (!IsVisible(at)) continue;
      empty = false;
      const double score = out_.masked_scores[at];
      if (std::isnan(score) || score > largest) largest = score;
    }
    double sum = 0;
    for (int64_t at = begin; at < end; ++at) {
      if (IsVisible(at)) sum += out_.attn_weights[at] = std::exp(out_.masked_scores[at] - largest);
    }
    for (int64_t at = begin; at < end; ++at) {
      if (IsVisible(at)) out_.attn_weights[at] /= sum;
    }
    out_.log_sum_exp[row] = empty ? kHidden : largest + std::log(sum);
    return !empty;
  }

  void FillEmpty(int64_t begin) {
    ++out_.empty_rows;
    if (inputs_.empty_rows == EmptyRowRule::kZero) return;
    std::fill_n(out_.attn_weights.begin() + begin, inputs_.kv_length, 1 / static_cast<double>(inputs_.kv_length));
  }

  const HeadShape& heads_;
  const ReferenceInputs& inputs_;
  const Product product_;
  ReferenceOutputs& out_;
};

void AttendAll(const HeadShape& heads, const ReferenceInputs& inputs, ReferenceOutputs& out) {
  Rows rows(heads, inputs, out);
  for (int64_t sequence = 0; sequence < inputs.batch; ++sequence) {
    const int64_t queries = inputs.q_lengths.empty() ? inputs.q_length : inputs.q_lengths[sequence];
    for (int64_t head = 0; head < heads.num_heads; ++head) {
      for (int64_t query = 0; query < queries; ++query) rows.Attend(sequence, head, query);
    }
  }
  ClearRowsAfterQueries(inputs, heads.query_features(), out.query);
}

}  // namespace

ReferenceOutputs ReferenceAttention(const LayerParameters& parameters, const ReferenceInputs& inputs) {
  const server::LayerShape& shape = parameters.shape;
  const HeadShape& heads = shape.heads;
  const Product product(inputs);
  ReferenceOutputs out;
  out.query = Project(product, inputs.inputs_q, parameters.query_kernel, parameters.query_bias, heads.query_features());
  out.key = Project(product, inputs.inputs_k, parameters.key_kernel, parameters.key_bias, heads.key_features());
  out.value = Project(product, inputs.inputs_v, parameters.value_kernel, parameters.value_bias, heads.value_features());
  Normalize(parameters.query_ln_scale, out.query);
  Normalize(parameters.key_ln_scale, out.key);
  AttendAll(heads, inputs, out);
  out.output = Project(product, out.context, parameters.out_kernel, parameters.out_bias, shape.out_features);
  ClearRowsAfterQueries(inputs, shape.out_features, out.output);
  return out;
}

ReferenceOutputs ReferenceAttention(const HeadShape& heads, const ReferenceInputs& inputs) {
  ReferenceOutputs out;
  out.query = inputs.inputs_q;
  out.key = inputs.inputs_k;
  out.value = inputs.inputs_v;
  AttendAll(heads, inputs, out);
  out.output = out.context;
  return out;
}

}  // namespace attention::test
