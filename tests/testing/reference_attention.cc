#include "tests/testing/reference_attention.h"

#include <cmath>
#include <limits>

namespace attention::test {
namespace {

using server::LayerParameters;

// rows × kernel + bias, kernel [in, out].
std::vector<double> Project(const std::vector<double>& rows, const std::vector<float>& kernel,
                            const std::vector<float>& bias, int64_t in, int64_t out) {
  const int64_t num_rows = static_cast<int64_t>(rows.size()) / in;
  std::vector<double> result(num_rows * out);
  for (int64_t row = 0; row < num_rows; ++row) {
    for (int64_t column = 0; column < out; ++column) {
      double sum = bias.empty() ? 0.0 : bias[column];
      for (int64_t i = 0; i < in; ++i) sum += rows[row * in + i] * kernel[i * out + column];
      result[row * out + column] = sum;
    }
  }
  return result;
}

// Softmax of where(mask, scores, lowest finite float32) over one row of `count` keys; `mask` may be null.
void Softmax(const double* scores, const uint8_t* mask, int64_t count, double* weights) {
  const double hidden = std::numeric_limits<float>::lowest();
  double largest = -std::numeric_limits<double>::infinity();
  for (int64_t j = 0; j < count; ++j) {
    weights[j] = mask == nullptr || mask[j] != 0 ? scores[j] : hidden;
    if (std::isnan(weights[j]) || weights[j] > largest) largest = weights[j];
  }
  double sum = 0;
  for (int64_t j = 0; j < count; ++j) sum += weights[j] = std::exp(weights[j] - largest);
  for (int64_t j = 0; j < count; ++j) weights[j] /= sum;
}

double Dot(const double* a, const double* b, int64_t count) {
  double sum = 0;
  for (int64_t i = 0; i < count; ++i) sum += a[i] * b[i];
  return sum;
}

// The lines of the formula between the projections, one query row of one head of one sequence at a time.
class Rows {
 public:
  Rows(const server::LayerShape& shape, const ReferenceInputs& inputs, ReferenceOutputs& out)
      : shape_(shape), inputs_(inputs), out_(out) {}

  void Attend(int64_t sequence, int64_t head, int64_t query) {
    const int64_t row = ((sequence * shape_.num_heads + head) * inputs_.q_length + query) * inputs_.kv_length;
    const int64_t query_at = At(sequence, inputs_.q_length, query, head);
    const auto kv_at = [&](int64_t j) { return At(sequence, inputs_.kv_length, j, head); };
    for (int64_t j = 0; j < inputs_.kv_length; ++j) {
      const double dot = Dot(&out_.query[query_at], &out_.key[kv_at(j)], shape_.head_dim);
      out_.scores[row + j] = dot / std::sqrt(static_cast<double>(shape_.head_dim));
    }
    const uint8_t* mask = inputs_.mask.empty() ? nullptr : inputs_.mask.data() + row;
    Softmax(out_.scores.data() + row, mask, inputs_.kv_length, out_.attn_weights.data() + row);
    for (int64_t d = 0; d < shape_.head_dim; ++d) {
      double sum = 0;
      for (int64_t j = 0; j < inputs_.kv_length; ++j) sum += out_.attn_weights[row + j] * out_.value[kv_at(j) + d];
      out_.context[query_at + d] = sum;
    }
  }

 private:
  // Where one head of one token begins in [batch, length, num_heads, head_dim].
  int64_t At(int64_t sequence, int64_t length, int64_t token, int64_t head) const {
    return ((sequence * length + token) * shape_.num_heads + head) * shape_.head_dim;
  }

  const server::LayerShape& shape_;
  const ReferenceInputs& inputs_;
  ReferenceOutputs& out_;
};

}  // namespace

ReferenceOutputs ReferenceAttention(const LayerParameters& parameters, const ReferenceInputs& inputs) {
  const server::LayerShape& shape = parameters.shape;
  const int64_t qkv = shape.qkv_features();
  ReferenceOutputs out;
  out.query = Project(inputs.inputs_q, parameters.query_kernel, parameters.query_bias, shape.in_features, qkv);
  out.key = Project(inputs.inputs_k, parameters.key_kernel, parameters.key_bias, shape.in_k_features, qkv);
  out.value = Project(inputs.inputs_v, parameters.value_kernel, parameters.value_bias, shape.in_v_features, qkv);
  out.scores.resize(inputs.batch * shape.num_heads * inputs.q_length * inputs.kv_length);
  out.attn_weights.resize(out.scores.size());
  out.context.resize(out.query.size());
  Rows rows(shape, inputs, out);
  for (int64_t sequence = 0; sequence < inputs.batch; ++sequence) {
    for (int64_t head = 0; head < shape.num_heads; ++head) {
      for (int64_t query = 0; query < inputs.q_length; ++query) rows.Attend(sequence, head, query);
    }
  }
  out.output = Project(out.context, parameters.out_kernel, parameters.out_bias, qkv, shape.out_features);
  return out;
}

std::vector<uint8_t> BroadcastMask(absl::Span<const uint8_t> mask, absl::Span<const int64_t> mask_shape,
                                   absl::Span<const int64_t> shape) {
  int64_t count = 1;
  for (int64_t size : shape) count *= size;
  std::vector<uint8_t> result(count);
  const size_t missing = shape.size() - mask_shape.size();
  for (int64_t element = 0; element < count; ++element) {
    int64_t rest = element;
    int64_t from = 0;
    int64_t stride = 1;
    for (size_t axis = shape.size(); axis-- > missing;) {
      const int64_t size = mask_shape[axis - missing];
      if (size != 1) from += rest % shape[axis] * stride;
      rest /= shape[axis];
      stride *= size;
    }
    result[element] = mask[from];
  }
  return result;
}

}  // namespace attention::test
