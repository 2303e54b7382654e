#include "server/engine/plan/call_slices.h"

#include <algorithm>

namespace attention::server {
namespace {

// What becomes of a token between the projections.
int64_t TokenBytes(const HeadShape& heads) {
  const int64_t numbers =
      heads.query_features() + heads.key_features() + heads.value_features() + heads.context_features();
  return numbers * static_cast<int64_t>(sizeof(float));
}

int64_t TokensOfSequence(const AttentionCall& call) { return call.q_length + (call.k_is_q ? 0 : call.kv_length); }

int64_t Tokens(const AttentionCall& call) { return call.batch * TokensOfSequence(call); }

// The sequences from `first` on of something that has one entry for each, or one or none for all.
template <typename T>
std::vector<T> Part(const std::vector<T>& of, int64_t first, int64_t count) {
  const bool one_for_each = of.size() > 1;
  const auto begin = of.begin() + (one_for_each ? first : 0);
  return std::vector<T>(begin, one_for_each ? begin + count : of.end());
}

ScoresTensor Part(const ScoresTensor& of, int64_t first, int64_t count) {
  if (of.data == nullptr) return {};
  return {of.dtype, of.data, Part(of.batch_offsets, first, count), of.head_stride, of.q_stride, of.kv_stride};
}

std::vector<int64_t> PartOfIds(const std::vector<int64_t>& of, int64_t stride, int64_t first, int64_t count) {
  if (stride == 0) return of;
  return {of.begin() + first * stride, of.begin() + (first + count) * stride};
}

SegmentIds Part(const SegmentIds& of, int64_t first, int64_t count) {
  return {.q = PartOfIds(of.q, of.q_batch_stride, first, count),
          .kv = PartOfIds(of.kv, of.kv_batch_stride, first, count),
          .q_batch_stride = of.q_batch_stride,
          .kv_batch_stride = of.kv_batch_stride};
}

TensorView Part(const TensorView& of, int64_t first, int64_t count, int64_t* shape) {
  std::copy(of.shape.begin(), of.shape.end(), shape);
  shape[0] = count;
  const int64_t bytes = of.shape[1] * of.shape[2] * DTypeSize(of.dtype);
  return {of.dtype, {shape, 3}, of.data + first * bytes};
}

template <typename T>
void Advance(T*& data, int64_t by) {
  if (data != nullptr) data += by;
}

void AdvanceOutputs(const AttentionCall& call, int64_t first, CallOutputs& also) {
  const HeadShape& heads = call.heads;
  const int64_t rows = first * heads.num_heads * call.q_length;
  Advance(also.query, first * call.q_length * heads.query_features());
  Advance(also.key, first * call.kv_length * heads.key_features());
  Advance(also.value, first * call.kv_length * heads.value_features());
  for (float** scores : {&also.scores, &also.capped_scores, &also.masked_scores, &also.attn_weights}) {
    Advance(*scores, rows * call.kv_length);
  }
  Advance(also.mean_attn_weights, first * call.q_length * call.kv_length);
  Advance(also.top_keys, rows * call.options.top_k);
  Advance(also.top_weights, rows * call.options.top_k);
  Advance(also.log_sum_exp, rows);
  Advance(also.context, first * call.q_length * heads.context_features());
}

}  // namespace

int64_t SliceTokens(const HeadShape& heads) { return (int64_t{1} << 20) / TokenBytes(heads); }

int64_t WaveTokens(const HeadShape& heads, int num_threads) {
  constexpr int64_t kTokensPerThread = 256;
  return std::max<int64_t>((int64_t{8} << 20) / TokenBytes(heads), kTokensPerThread * num_threads);
}

CallSlices::CallSlices(absl::Span<const AttentionCall* const> calls, int64_t out_features, int64_t slice_tokens) {
  for (const AttentionCall* call : calls) {
    const int64_t sequences = std::max<int64_t>(1, slice_tokens / std::max<int64_t>(1, TokensOfSequence(*call)));
    if (sequences >= call->batch) {
      slices_.push_back(call);
      continue;
    }
    for (int64_t first = 0; first < call->batch; first += sequences) {
      Add(*call, first, std::min(sequences, call->batch - first), out_features);
    }
  }
}

// Field by field: a copy of the whole call would copy all its lists for each slice.
void CallSlices::Add(const AttentionCall& call, int64_t first, int64_t count, int64_t out_features) {
  Slice& slice = owned_.emplace_back();
  AttentionCall& part = slice.call;
  part.batch = count;
  part.first_sequence = call.first_sequence + first;
  part.q_length = call.q_length;
  part.kv_length = call.kv_length;
  part.heads = call.heads;
  part.inputs_q = Part(call.inputs_q, first, count, slice.shapes.data());
  part.inputs_k = Part(call.inputs_k, first, count, slice.shapes.data() + 3);
  part.inputs_v = Part(call.inputs_v, first, count, slice.shapes.data() + 6);
  part.k_is_q = call.k_is_q;
  part.v_is_k = call.v_is_k;
  part.mask.dense = Part(call.mask.dense, first, count);
  part.mask.limits = Part(call.mask.limits, first, count);
  part.mask.segments = Part(call.mask.segments, first, count);
  part.bias = Part(call.bias, first, count);
  part.options = call.options;
  part.output_dtype = call.output_dtype;
  part.output = call.output + first * call.q_length * out_features * DTypeSize(call.output_dtype);
  part.also = call.also;
  AdvanceOutputs(call, first, part.also);
  part.empty_rows = call.empty_rows;
  slices_.push_back(&part);
}

std::vector<absl::Span<const AttentionCall* const>> CutWaves(absl::Span<const AttentionCall* const> slices,
                                                             int64_t wave_tokens) {
  std::vector<absl::Span<const AttentionCall* const>> waves;
  size_t first = 0;
  int64_t tokens = 0;
  for (size_t i = 0; i < slices.size(); ++i) {
    if (i > first && tokens + Tokens(*slices[i]) > wave_tokens) {
      waves.push_back(slices.subspan(first, i - first));
      first = i;
      tokens = 0;
    }
    tokens += Tokens(*slices[i]);
  }
  if (first < slices.size()) waves.push_back(slices.subspan(first));
  return waves;
}

}  // namespace attention::server
