#include "server/engine/plan/batch_plan.h"

#include <algorithm>
#include <utility>

#include "server/engine/onednn/tile_shapes.h"
#include "server/engine/plan/sequence_layout.h"
#include "server/engine/projection/packed_kernel.h"

namespace attention::server {
namespace {

// Hands out consecutive rows of a buffer.
class RowCounter {
 public:
  int64_t Take(int64_t rows) { return std::exchange(rows_, rows_ + rows); }
  int64_t rows() const { return rows_; }

 private:
  int64_t rows_ = 0;
};

// Calls that leave out the same inputs share their streams, and these must be contiguous in every buffer: so the calls
// of one form are laid out together.
enum class Form { kSelf, kSharedKeysAndValues, kSeparate };

Form FormOf(const AttentionCall& call) {
  if (call.k_is_q) return Form::kSelf;
  return call.v_is_k ? Form::kSharedKeysAndValues : Form::kSeparate;
}

template <typename T>
void Append(const std::vector<T>& from, std::vector<T>& to) {
  to.insert(to.end(), from.begin(), from.end());
}

// Rows [rows, heads × size] of a buffer as a call's query, key, value or context.
template <typename Byte>
HeadTensor<Byte> InBuffer(const float* data, const SequenceLayout& layout, int64_t heads, int64_t size) {
  auto* bytes = reinterpret_cast<Byte*>(const_cast<float*>(data));
  return {.data = bytes,
          .sequence_stride = layout.rows_per_sequence * heads * size,
          .head_stride = size,
          .token_stride = heads * size,
          .first_tokens = layout.first_rows};
}

class ProjectionPlanner {
 public:
  ProjectionPlanner(const Layer& layer, BatchBuffers& buffers, BatchPlan& plan)
      : heads_(layer.shape().heads), kernels_(layer.kernels()), buffers_(buffers), plan_(plan) {}

  void Plan(absl::Span<const AttentionCall* const> calls) {
    std::vector<CallLayout> layouts;
    layouts.reserve(calls.size());
    plan_.calls.reserve(calls.size());
    for (const AttentionCall* call : calls) layouts.push_back(LayOut(*call));
    Reserve(layouts);
    for (const DType operands : {DType::kFloat32, DType::kBFloat16}) {
      contexts_ = {.operands = operands, .context = ContextAt(context_rows_.rows()), .segments = {}, .outputs = {}};
      for (const Form form : {Form::kSelf, Form::kSharedKeysAndValues, Form::kSeparate}) {
        std::vector<const CallLayout*> alike;
        for (const CallLayout& layout : layouts) {
          const AttentionCall& call = *layout.call;
          if (FormOf(call) == form && call.options.compute_dtype == operands) alike.push_back(&layout);
        }
        if (!alike.empty()) AddStreams(form, operands, alike);
      }
      if (!contexts_.segments.empty()) plan_.contexts.push_back(std::move(contexts_));
    }
  }

 private:
  void Reserve(absl::Span<const CallLayout> layouts) {
    int64_t queries = 0;
    int64_t keys = 0;
    int64_t contexts = 0;
    for (const CallLayout& layout : layouts) {
      queries += layout.queries.rows;
      keys += layout.keys.rows;
      contexts += layout.contexts.rows;
    }
    buffers_.query.Reserve(queries * heads_.query_features());
    buffers_.key.Reserve(keys * heads_.key_features());
    buffers_.value.Reserve(keys * heads_.value_features());
    buffers_.context.Reserve(contexts * heads_.context_features());
  }

  void AddStreams(Form form, DType operands, absl::Span<const CallLayout* const> layouts) {
    const TokenStream::Target query{&kernels_.query, QueryAt(query_rows_.rows()), &kernels_.query_ln_scale};
    const TokenStream::Target key{&kernels_.key, KeyAt(key_rows_.rows()), &kernels_.key_ln_scale};
    const TokenStream::Target value{&kernels_.value, ValueAt(key_rows_.rows())};
    TokenStream from_q{.segments = {}, .targets = {query}, .operands = operands};
    TokenStream from_k{.segments = {}, .targets = {key}, .operands = operands};
    TokenStream from_v{.segments = {}, .targets = {value}, .operands = operands};
    for (const CallLayout* layout : layouts) {
      Append(SegmentsOf(layout->call->inputs_q, layout->queries), from_q.segments);
      Append(SegmentsOf(layout->call->inputs_k, layout->keys), from_k.segments);
      Append(SegmentsOf(layout->call->inputs_v, layout->keys), from_v.segments);
      Place(*layout);
    }
    if (form == Form::kSelf) from_q.targets = {query, key, value};
    if (form == Form::kSharedKeysAndValues) from_k.targets = {key, value};
    plan_.streams.push_back(std::move(from_q));
    if (form != Form::kSelf) plan_.streams.push_back(std::move(from_k));
    if (form == Form::kSeparate) plan_.streams.push_back(std::move(from_v));
  }

  void Place(const CallLayout& layout) {
    const AttentionCall& call = *layout.call;
    const int64_t query_row = query_rows_.Take(layout.queries.rows);
    const int64_t key_row = key_rows_.Take(layout.keys.rows);
    const float* context = ContextAt(context_rows_.Take(layout.contexts.rows));
    plan_.calls.push_back(
        {.call = &call,
         .query = InBuffer<const std::byte>(QueryAt(query_row), layout.queries, heads_.num_heads, heads_.head_dim),
         .key = InBuffer<const std::byte>(KeyAt(key_row), layout.keys, heads_.num_kv_heads, heads_.head_dim),
         .value = InBuffer<const std::byte>(ValueAt(key_row), layout.keys, heads_.num_kv_heads, heads_.value_head_dim),
         .context = InBuffer<std::byte>(context, layout.contexts, heads_.num_heads, heads_.value_head_dim)});

    const int64_t out_features = kernels_.out.n();
    const int64_t shape[] = {call.batch, call.q_length, out_features};
    const std::vector<RowSegment> outputs = SegmentsOf({call.output_dtype, shape, call.output}, layout.contexts);
    int64_t row = 0;
    for (const RowSegment& output : outputs) {
      const float* rows = context + row * heads_.context_features();
      contexts_.segments.push_back({DType::kFloat32, reinterpret_cast<const std::byte*>(rows), output.rows});
      contexts_.outputs.push_back({call.output_dtype, const_cast<std::byte*>(output.data)});
      row += output.rows;
    }
  }

  float* QueryAt(int64_t row) const { return buffers_.query.data() + row * heads_.query_features(); }
  float* KeyAt(int64_t row) const { return buffers_.key.data() + row * heads_.key_features(); }
  float* ValueAt(int64_t row) const { return buffers_.value.data() + row * heads_.value_features(); }
  const float* ContextAt(int64_t row) const { return buffers_.context.data() + row * heads_.context_features(); }

  const HeadShape& heads_;
  const PackedKernels& kernels_;
  BatchBuffers& buffers_;
  BatchPlan& plan_;
  RowCounter query_rows_, key_rows_, context_rows_;
  ContextStream contexts_;
};

// A call's own tensor as its query, key, value or context.
template <typename Byte>
HeadTensor<Byte> InCall(HeadAxes axes, DType dtype, Byte* data, int64_t heads, int64_t length, int64_t size) {
  const bool heads_first = axes == HeadAxes::kHeadsLength;
  return {.dtype = dtype,
          .data = data,
          .sequence_stride = heads * length * size,
          .head_stride = heads_first ? length * size : size,
          .token_stride = heads_first ? size : heads * size};
}

ProjectedCall WithoutProjections(const AttentionCall& call) {
  const HeadShape& heads = call.heads;
  const auto input = [&](const TensorView& tensor, int64_t num_heads, int64_t length, int64_t size) {
    return InCall(call.head_axes, tensor.dtype, tensor.data, num_heads, length, size);
  };
  return {.call = &call,
          .query = input(call.inputs_q, heads.num_heads, call.q_length, heads.head_dim),
          .key = input(call.inputs_k, heads.num_kv_heads, call.kv_length, heads.head_dim),
          .value = input(call.inputs_v, heads.num_kv_heads, call.kv_length, heads.value_head_dim),
          .context = InCall(call.head_axes, call.output_dtype, call.output, heads.num_heads, call.q_length,
                            heads.value_head_dim)};
}

void AddUnits(const ProjectedCall& projected, std::vector<AttentionUnit>& units) {
  const AttentionCall& call = *projected.call;
  // The mean over the heads is summed by one thread, in their order.
  const int64_t heads = call.also.mean_attn_weights == nullptr ? 1 : call.heads.num_heads;
  for (int64_t sequence = 0; sequence < call.batch; ++sequence) {
    const SequenceLimits limits = call.LimitsOf(sequence);
    for (int64_t head = 0; head < call.heads.num_heads; head += heads) {
      for (int64_t query = 0; query < limits.q_length; query += kUnitQueries) {
        units.push_back({.projected = &projected,
                         .sequence = sequence,
                         .first_head = head,
                         .heads = heads,
                         .first_query = query,
                         .queries = std::min(kUnitQueries, limits.q_length - query)});
      }
    }
  }
}

}  // namespace

BatchPlan PlanBatch(const Layer& layer, absl::Span<const AttentionCall* const> calls, BatchBuffers& buffers) {
  BatchPlan plan;
  ProjectionPlanner(layer, buffers, plan).Plan(calls);
  for (const ProjectedCall& projected : plan.calls) AddUnits(projected, plan.units);
  return plan;
}

BatchPlan PlanUnprojected(absl::Span<const AttentionCall* const> calls) {
  BatchPlan plan;
  for (const AttentionCall* call : calls) plan.calls.push_back(WithoutProjections(*call));
  for (const ProjectedCall& projected : plan.calls) AddUnits(projected, plan.units);
  return plan;
}

}  // namespace attention::server
