#include "tests/testing/reference/reference_request.h"

#include "tests/testing/matchers.h"
#include "tests/testing/reference/reference_mask.h"
#include "tests/testing/server/wire.h"

namespace attention::test {
namespace {

using server::HeadShape;

std::vector<double> Numbers(const v1::Tensor& tensor) { return Values(ClientTensor(tensor)); }

const v1::Tensor& InputsK(const v1::AttendRequest& request) {
  return request.has_inputs_k() ? request.inputs_k() : request.inputs_q();
}

const v1::Tensor& InputsV(const v1::AttendRequest& request) {
  return request.has_inputs_v() ? request.inputs_v() : InputsK(request);
}

// The size of an axis, counted from the right; 1 is the last axis.
int64_t FromRight(const v1::Tensor& tensor, int axis) { return tensor.shape(tensor.shape_size() - axis); }

int64_t LengthOf(const v1::AttendRequest& request, const v1::Tensor& tensor) {
  return FromRight(tensor, request.heads().axes() == v1::HeadLayout::AXES_LENGTH_HEADS ? 3 : 2);
}

int64_t WidthOf(const v1::AttendRequest& request, const v1::Tensor& tensor, int64_t heads) {
  const bool flat = request.heads().axes() == v1::HeadLayout::AXES_LENGTH_FEATURES;
  return FromRight(tensor, 1) / (flat ? heads : 1);
}

int64_t Product(const std::vector<int64_t>& sizes) {
  int64_t product = 1;
  for (int64_t size : sizes) product *= size;
  return product;
}

// Exchanges the second and the third of four axes.
std::vector<double> Transpose(const std::vector<double>& numbers, const std::vector<int64_t>& sizes) {
  std::vector<double> result;
  result.reserve(numbers.size());
  for (int64_t a = 0; a < sizes[0]; ++a) {
    for (int64_t c = 0; c < sizes[2]; ++c) {
      for (int64_t b = 0; b < sizes[1]; ++b) {
        const auto from = numbers.begin() + ((a * sizes[1] + b) * sizes[2] + c) * sizes[3];
        result.insert(result.end(), from, from + sizes[3]);
      }
    }
  }
  return result;
}

ReferenceInputs ReadInputs(const v1::AttendRequest& request, const HeadShape& heads) {
  const std::vector<int64_t> scores = ScoresShape(request, heads);
  ReferenceInputs inputs;
  inputs.batch = Product(BatchAxes(request));
  inputs.q_length = scores[scores.size() - 2];
  inputs.kv_length = scores.back();
  inputs.inputs_q = Numbers(request.inputs_q());
  inputs.inputs_k = Numbers(InputsK(request));
  inputs.inputs_v = Numbers(InputsV(request));
  inputs.mask = DenseMask(request.mask(), scores);
  if (request.has_bias()) {
    const v1::Tensor& bias = request.bias();
    inputs.bias = Broadcast(Numbers(bias), {bias.shape().data(), static_cast<size_t>(bias.shape_size())}, scores);
  }
  inputs.q_lengths = {request.mask().q_lengths().begin(), request.mask().q_lengths().end()};
  const v1::AttendOptions& options = request.options();
  if (options.has_scale()) inputs.scale = options.scale();
  if (options.has_softcap()) inputs.softcap = options.softcap();
  if (options.empty_rows() == v1::EMPTY_ROWS_ZERO) inputs.empty_rows = server::EmptyRowRule::kZero;
  inputs.bfloat16 = options.compute_dtype() == v1::DATA_TYPE_BFLOAT16;
  return inputs;
}

}  // namespace

HeadShape HeadsOf(const v1::AttendRequest& request) {
  HeadShape heads;
  heads.num_heads = request.heads().num_heads();
  heads.num_kv_heads = request.heads().num_kv_heads() == 0 ? heads.num_heads : request.heads().num_kv_heads();
  heads.head_dim = WidthOf(request, request.inputs_q(), heads.num_heads);
  heads.value_head_dim = WidthOf(request, InputsV(request), heads.num_kv_heads);
  return heads;
}

std::vector<int64_t> BatchAxes(const v1::AttendRequest& request) {
  const v1::HeadLayout::Axes axes = request.heads().axes();
  const bool has_heads_axis = axes == v1::HeadLayout::AXES_LENGTH_HEADS || axes == v1::HeadLayout::AXES_HEADS_LENGTH;
  const auto& shape = request.inputs_q().shape();
  return {shape.begin(), shape.end() - (has_heads_axis ? 3 : 2)};
}

std::vector<int64_t> ScoresShape(const v1::AttendRequest& request, const HeadShape& heads) {
  std::vector<int64_t> shape = BatchAxes(request);
  shape.insert(shape.end(),
               {heads.num_heads, LengthOf(request, request.inputs_q()), LengthOf(request, InputsK(request))});
  return shape;
}

std::vector<int64_t> OutputShape(const v1::AttendRequest& request, const server::LayerShape* layer) {
  std::vector<int64_t> shape(request.inputs_q().shape().begin(), request.inputs_q().shape().end());
  if (layer != nullptr) {
    shape.back() = layer->out_features;
  } else {
    const HeadShape heads = HeadsOf(request);
    const bool flat = request.heads().axes() == v1::HeadLayout::AXES_LENGTH_FEATURES;
    shape.back() = flat ? heads.context_features() : heads.value_head_dim;
  }
  return shape;
}

std::vector<double> ToLayout(const std::vector<double>& numbers, const std::vector<int64_t>& sizes,
                             v1::HeadLayout::Axes axes) {
  return axes == v1::HeadLayout::AXES_HEADS_LENGTH ? Transpose(numbers, sizes) : numbers;
}

std::vector<double> FromLayout(const std::vector<double>& numbers, const std::vector<int64_t>& sizes,
                               v1::HeadLayout::Axes axes) {
  if (axes != v1::HeadLayout::AXES_HEADS_LENGTH) return numbers;
  return Transpose(numbers, {sizes[0], sizes[2], sizes[1], sizes[3]});
}

ReferenceOutputs ReferenceAnswer(const v1::AttendRequest& request, const server::LayerParameters* layer) {
  if (layer != nullptr) return ReferenceAttention(*layer, ReadInputs(request, layer->shape.heads));
  const HeadShape heads = HeadsOf(request);
  const v1::HeadLayout::Axes axes = request.heads().axes();
  ReferenceInputs inputs = ReadInputs(request, heads);
  inputs.inputs_q = FromLayout(inputs.inputs_q, {inputs.batch, inputs.q_length, heads.num_heads, heads.head_dim}, axes);
  inputs.inputs_k =
      FromLayout(inputs.inputs_k, {inputs.batch, inputs.kv_length, heads.num_kv_heads, heads.head_dim}, axes);
  inputs.inputs_v =
      FromLayout(inputs.inputs_v, {inputs.batch, inputs.kv_length, heads.num_kv_heads, heads.value_head_dim}, axes);
  ReferenceOutputs out = ReferenceAttention(heads, inputs);
  out.output = ToLayout(out.output, {inputs.batch, inputs.q_length, heads.num_heads, heads.value_head_dim}, axes);
  return out;
}

}  // namespace attention::test
