#include "server/engine/batch_plan.h"

#include <algorithm>
#include <array>
#include <utility>

#include "server/engine/tile_plan.h"

namespace attention::server {
namespace {

int64_t QueryRows(const AttentionCall& call) { return call.batch * call.q_length; }
int64_t KeyRows(const AttentionCall& call) { return call.batch * call.kv_length; }

RowSegment Segment(const TensorView& inputs, int64_t rows) { return {inputs.dtype, inputs.data, rows}; }

// Hands out consecutive rows of a buffer whose size is known only at the end.
class RowCounter {
 public:
  int64_t Take(int64_t rows) { return std::exchange(rows_, rows_ + rows); }
  int64_t rows() const { return rows_; }

 private:
  int64_t rows_ = 0;
};

// Calls that leave out the same inputs share their streams, and these must be contiguous in every buffer: so the calls
// of one form are laid out together.
enum Form { kSelf, kSharedKeysAndValues, kSeparate, kForms };

Form FormOf(const AttentionCall& call) {
  if (call.k_is_q) return kSelf;
  return call.v_is_k ? kSharedKeysAndValues : kSeparate;
}

class Planner {
 public:
  Planner(const Layer& layer, BatchBuffers& buffers)
      : shape_(layer.shape()), kernels_(layer.kernels()), buffers_(buffers) {}

  BatchPlan Plan(absl::Span<const AttentionCall* const> calls) {
    std::array<std::vector<const AttentionCall*>, kForms> by_form;
    for (const AttentionCall* call : calls) by_form[FormOf(*call)].push_back(call);
    Reserve(calls);
    for (int form = 0; form < kForms; ++form) {
      if (!by_form[form].empty()) AddForm(static_cast<Form>(form), by_form[form]);
    }
    for (const ProjectedCall& projected : plan_.calls) AddUnits(projected);
    return std::move(plan_);
  }

 private:
  void Reserve(absl::Span<const AttentionCall* const> calls) {
    int64_t queries = 0;
    int64_t keys = 0;
    for (const AttentionCall* call : calls) {
      queries += QueryRows(*call);
      keys += KeyRows(*call);
    }
    buffers_.query.Reserve(queries * shape_.qkv_features());
    buffers_.context.Reserve(queries * shape_.qkv_features());
    buffers_.key.Reserve(keys * shape_.qkv_features());
    buffers_.value.Reserve(keys * shape_.qkv_features());
  }

  void AddForm(Form form, absl::Span<const AttentionCall* const> calls) {
    const TokenStream::Target query{&kernels_.query, QueryAt(query_rows_.rows())};
    const TokenStream::Target key{&kernels_.key, KeyAt(buffers_.key, key_rows_.rows())};
    const TokenStream::Target value{&kernels_.value, KeyAt(buffers_.value, key_rows_.rows())};
    TokenStream from_q{{}, {query}};
    TokenStream from_k{{}, {key}};
    TokenStream from_v{{}, {value}};
    for (const AttentionCall* call : calls) {
      from_q.segments.push_back(Segment(call->inputs_q, QueryRows(*call)));
      from_k.segments.push_back(Segment(call->inputs_k, KeyRows(*call)));
      from_v.segments.push_back(Segment(call->inputs_v, KeyRows(*call)));
      Place(*call);
    }
    if (form == kSelf) from_q.targets = {query, key, value};
    if (form == kSharedKeysAndValues) from_k.targets = {key, value};
    plan_.streams.push_back(std::move(from_q));
    if (form != kSelf) plan_.streams.push_back(std::move(from_k));
    if (form == kSeparate) plan_.streams.push_back(std::move(from_v));
  }

  void Place(const AttentionCall& call) {
    const int64_t query_row = query_rows_.Take(QueryRows(call));
    const int64_t key_row = key_rows_.Take(KeyRows(call));
    float* context = buffers_.context.data() + query_row * shape_.qkv_features();
    plan_.calls.push_back(
        {&call, QueryAt(query_row), KeyAt(buffers_.key, key_row), KeyAt(buffers_.value, key_row), context});
    plan_.context_rows.push_back({DType::kFloat32, reinterpret_cast<std::byte*>(context), QueryRows(call)});
  }

  float* QueryAt(int64_t row) const { return buffers_.query.data() + row * shape_.qkv_features(); }
  float* KeyAt(const Buffer& buffer, int64_t row) const { return buffer.data() + row * shape_.qkv_features(); }

  void AddUnits(const ProjectedCall& projected) {
    const AttentionCall& call = *projected.call;
    if (call.kv_length == 0) {
      // Nothing to attend to: the output is the bias alone.
      std::fill_n(projected.context, QueryRows(call) * shape_.qkv_features(), 0.0f);
      return;
    }
    constexpr int64_t kUnitQueries = kTilesPerUnit * kTileRows;
    for (int64_t sequence = 0; call.q_length > 0 && sequence < call.batch; ++sequence) {
      for (int64_t head = 0; head < shape_.num_heads; ++head) {
        for (int64_t query = 0; query < call.q_length; query += kUnitQueries) {
          plan_.units.push_back({&projected, sequence, head, query, std::min(kUnitQueries, call.q_length - query)});
        }
      }
    }
  }

  const LayerShape& shape_;
  const PackedKernels& kernels_;
  BatchBuffers& buffers_;
  RowCounter query_rows_;
  RowCounter key_rows_;
  BatchPlan plan_;
};

}  // namespace

BatchPlan PlanBatch(const Layer& layer, absl::Span<const AttentionCall* const> calls, BatchBuffers& buffers) {
  return Planner(layer, buffers).Plan(calls);
}

}  // namespace attention::server
