#include "server/engine/plan/batch_plan.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "server/engine/onednn/tile_shapes.h"
#include "server/engine/projection/packed_kernel.h"

namespace attention::server {
namespace {

// How the needed tokens of a slice are stored end to end.
struct TokenLayout {
  int64_t tokens = 0;                                                  // of all sequences
  int64_t tokens_per_sequence = 0;                                     // if all sequences have the same number
  std::shared_ptr<const std::vector<int64_t>> first_tokens = nullptr;  // else: the first token of each sequence

  // `index` counts from the first sequence of the slice.
  int64_t TokensOf(int64_t index) const {
    if (first_tokens == nullptr) return tokens_per_sequence;
    const auto next = static_cast<size_t>(index) + 1;
    return (next == first_tokens->size() ? tokens : (*first_tokens)[next]) - (*first_tokens)[index];
  }
};

template <typename CountTokens>
TokenLayout LayOutTokens(const CallSlice& slice, const CountTokens& count_of) {
  if (slice.call->mask.limits.size() <= 1) {
    const int64_t tokens = count_of(slice.first_sequence);
    return {.tokens = slice.sequences * tokens, .tokens_per_sequence = tokens};
  }
  auto first_tokens = std::make_shared<std::vector<int64_t>>();
  first_tokens->reserve(slice.sequences);
  TokenLayout layout;
  for (int64_t i = 0; i < slice.sequences; ++i) {
    first_tokens->push_back(layout.tokens);
    layout.tokens += count_of(slice.first_sequence + i);
  }
  layout.first_tokens = std::move(first_tokens);
  return layout;
}

struct SliceLayout {
  CallSlice slice;
  TokenLayout queries;
  TokenLayout keys;  // of key and value
  TokenLayout contexts;
};

SliceLayout LayOut(const CallSlice& slice) {
  const AttentionCall& call = *slice.call;
  return {.slice = slice,
          .queries = LayOutTokens(slice, [&](int64_t sequence) { return TokensOf(call, sequence).queries; }),
          .keys = LayOutTokens(slice, [&](int64_t sequence) { return TokensOf(call, sequence).keys; }),
          .contexts = LayOutTokens(slice, [&](int64_t sequence) { return call.LimitsOf(sequence).q_length; })};
}

// Adds the rows of a slice's tensor that `layout` contains. Sequences that are complete are added together.
template <typename Byte>
void AddRows(const SequenceTensor<Byte>& tensor, const CallSlice& slice, const TokenLayout& layout,
             std::vector<TensorRows<Byte>>& rows) {
  if (layout.first_tokens == nullptr && layout.tokens_per_sequence == tensor.length) {
    rows.push_back({tensor.dtype, tensor.At(slice.first_sequence), layout.tokens, slice.call});
    return;
  }
  for (int64_t i = 0; i < slice.sequences; ++i) {
    rows.push_back({tensor.dtype, tensor.At(slice.first_sequence + i), layout.TokensOf(i), slice.call});
  }
}

// Hands out consecutive rows of a buffer.
class RowCounter {
 public:
  int64_t Take(int64_t rows) { return std::exchange(rows_, rows_ + rows); }
  int64_t rows() const { return rows_; }

 private:
  int64_t rows_ = 0;
};

// Rows [tokens, heads × size] of a buffer as the query, key, value or context of a slice.
template <typename Byte>
HeadTensor<Byte> InBuffer(const float* data, const SliceLayout& slice, const TokenLayout& layout, int64_t heads,
                          int64_t size) {
  auto* bytes = reinterpret_cast<Byte*>(const_cast<float*>(data));
  return {.data = bytes,
          .sequence_stride = layout.tokens_per_sequence * heads * size,
          .head_stride = size,
          .token_stride = heads * size,
          .first_sequence = slice.slice.first_sequence,
          .first_tokens = layout.first_tokens};
}

class WavePlanner {
 public:
  WavePlanner(const Layer& layer, WaveBuffers& buffers, BatchPlan& plan)
      : heads_(layer.shape().heads), kernels_(layer.kernels()), buffers_(buffers), plan_(plan) {}

  void Plan(absl::Span<const CallSlice> slices) {
    std::vector<SliceLayout> layouts;
    layouts.reserve(slices.size());
    plan_.slices.reserve(slices.size());
    for (const CallSlice& slice : slices) layouts.push_back(LayOut(slice));
    Reserve(layouts);
    for (const DType operands : {DType::kFloat32, DType::kBFloat16}) {
      OutputProjection outputs{.operands = operands, .context = ContextAt(context_rows_.rows()), .outputs = {}};
      // The rows of a projection must be consecutive in every buffer, so slices with the same sharing are placed
      // together.
      for (const InputSharing sharing : {InputSharing::kAll, InputSharing::kValuesAreKeys, InputSharing::kNone}) {
        std::vector<const SliceLayout*> selected;
        for (const SliceLayout& layout : layouts) {
          const AttentionCall& call = *layout.slice.call;
          if (call.shape.sharing == sharing && call.options.compute_dtype == operands) selected.push_back(&layout);
        }
        if (!selected.empty()) AddProjections(sharing, operands, selected, outputs);
      }
      if (!outputs.outputs.empty()) plan_.output_projections.push_back(std::move(outputs));
    }
  }

 private:
  void Reserve(absl::Span<const SliceLayout> layouts) {
    int64_t queries = 0;
    int64_t keys = 0;
    int64_t contexts = 0;
    for (const SliceLayout& layout : layouts) {
      queries += layout.queries.tokens;
      keys += layout.keys.tokens;
      contexts += layout.contexts.tokens;
    }
    buffers_.query.Reserve(queries * heads_.query_features());
    buffers_.key.Reserve(keys * heads_.key_features());
    buffers_.value.Reserve(keys * heads_.value_features());
    buffers_.context.Reserve(contexts * heads_.context_features());
  }

  void AddProjections(InputSharing sharing, DType operands, absl::Span<const SliceLayout* const> layouts,
                      OutputProjection& outputs) {
    const Projection::Target query{&kernels_.query, QueryAt(query_rows_.rows()), &kernels_.query_ln_scale};
    const Projection::Target key{&kernels_.key, KeyAt(key_rows_.rows()), &kernels_.key_ln_scale};
    const Projection::Target value{&kernels_.value, ValueAt(key_rows_.rows())};
    Projection from_q{.inputs = {}, .targets = {query}, .operands = operands};
    Projection from_k{.inputs = {}, .targets = {key}, .operands = operands};
    Projection from_v{.inputs = {}, .targets = {value}, .operands = operands};
    for (const SliceLayout* layout : layouts) {
      const AttentionCall& call = *layout->slice.call;
      AddRows(call.inputs_q, layout->slice, layout->queries, from_q.inputs);
      AddRows(call.inputs_k, layout->slice, layout->keys, from_k.inputs);
      AddRows(call.inputs_v, layout->slice, layout->keys, from_v.inputs);
      AddRows(call.output, layout->slice, layout->contexts, outputs.outputs);
      AddSlice(*layout);
    }
    if (sharing == InputSharing::kAll) from_q.targets = {query, key, value};
    if (sharing == InputSharing::kValuesAreKeys) from_k.targets = {key, value};
    plan_.projections.push_back(std::move(from_q));
    if (sharing != InputSharing::kAll) plan_.projections.push_back(std::move(from_k));
    if (sharing == InputSharing::kNone) plan_.projections.push_back(std::move(from_v));
  }

  void AddSlice(const SliceLayout& layout) {
    const float* query = QueryAt(query_rows_.Take(layout.queries.tokens));
    const int64_t key_row = key_rows_.Take(layout.keys.tokens);
    const float* context = ContextAt(context_rows_.Take(layout.contexts.tokens));
    const auto input = [&](const float* data, const TokenLayout& tokens, int64_t heads, int64_t size) {
      return InBuffer<const std::byte>(data, layout, tokens, heads, size);
    };
    plan_.slices.push_back(
        {.slice = layout.slice,
         .query = input(query, layout.queries, heads_.num_heads, heads_.head_dim),
         .key = input(KeyAt(key_row), layout.keys, heads_.num_kv_heads, heads_.head_dim),
         .value = input(ValueAt(key_row), layout.keys, heads_.num_kv_heads, heads_.value_head_dim),
         .context = InBuffer<std::byte>(context, layout, layout.contexts, heads_.num_heads, heads_.value_head_dim)});
  }

  float* QueryAt(int64_t row) const { return buffers_.query.data() + row * heads_.query_features(); }
  float* KeyAt(int64_t row) const { return buffers_.key.data() + row * heads_.key_features(); }
  float* ValueAt(int64_t row) const { return buffers_.value.data() + row * heads_.value_features(); }
  const float* ContextAt(int64_t row) const { return buffers_.context.data() + row * heads_.context_features(); }

  const HeadShape& heads_;
  const PackedKernels& kernels_;
  WaveBuffers& buffers_;
  BatchPlan& plan_;
  RowCounter query_rows_, key_rows_, context_rows_;
};

// A tensor of the call itself as its query, key, value or context.
template <typename Byte>
HeadTensor<Byte> InCall(HeadAxes axes, const SequenceTensor<Byte>& tensor, int64_t heads, int64_t size) {
  const bool heads_first = axes == HeadAxes::kHeadsLength;
  return {.dtype = tensor.dtype,
          .data = tensor.data,
          .sequence_stride = heads * tensor.length * size,
          .head_stride = heads_first ? tensor.length * size : size,
          .token_stride = heads_first ? size : heads * size};
}

SliceTensors TensorsOf(const AttentionCall& call) {
  const AttentionShape& shape = call.shape;
  const HeadShape& heads = shape.heads;
  return {.slice = {&call, 0, shape.batch},
          .query = InCall(shape.head_axes, call.inputs_q, heads.num_heads, heads.head_dim),
          .key = InCall(shape.head_axes, call.inputs_k, heads.num_kv_heads, heads.head_dim),
          .value = InCall(shape.head_axes, call.inputs_v, heads.num_kv_heads, heads.value_head_dim),
          .context = InCall(shape.head_axes, call.output, heads.num_heads, heads.value_head_dim)};
}

void AddUnits(const SliceTensors& tensors, std::vector<AttentionUnit>& units) {
  const AttentionCall& call = *tensors.slice.call;
  const int64_t num_heads = call.shape.heads.num_heads;
  // One thread sums the mean over the heads, in the order of the heads, so that its bits do not depend on timing.
  const int64_t heads = call.extra_outputs.mean_attn_weights == nullptr ? 1 : num_heads;
  for (int64_t i = 0; i < tensors.slice.sequences; ++i) {
    const int64_t sequence = tensors.slice.first_sequence + i;
    const int64_t q_length = call.LimitsOf(sequence).q_length;
    for (int64_t head = 0; head < num_heads; head += heads) {
      for (int64_t query = 0; query < q_length; query += kUnitQueries) {
        units.push_back({.tensors = &tensors,
                         .sequence = sequence,
                         .first_head = head,
                         .heads = heads,
                         .first_query = query,
                         .queries = std::min(kUnitQueries, q_length - query)});
      }
    }
  }
}

}  // namespace

BatchPlan PlanWave(const Layer& layer, absl::Span<const CallSlice> slices, WaveBuffers& buffers) {
  BatchPlan plan;
  WavePlanner(layer, buffers, plan).Plan(slices);
  for (const SliceTensors& tensors : plan.slices) AddUnits(tensors, plan.units);
  return plan;
}

BatchPlan PlanWithoutLayer(absl::Span<const AttentionCall* const> calls) {
  BatchPlan plan;
  for (const AttentionCall* call : calls) plan.slices.push_back(TensorsOf(*call));
  for (const SliceTensors& tensors : plan.slices) AddUnits(tensors, plan.units);
  return plan;
}

}  // namespace attention::server
