#include "server/engine/engine.h"

#include <oneapi/tbb/enumerable_thread_specific.h>
#include <oneapi/tbb/parallel_for.h>
#include <oneapi/tbb/task_arena.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "server/engine/attention/worker.h"
#include "server/engine/plan/batch_plan.h"
#include "server/engine/plan/call_slices.h"
#include "server/engine/projection/packed_kernel.h"
#include "server/engine/projection/projection.h"
#include "server/runtime/catch_exceptions.h"

namespace attention::server {
namespace {

// The rows of one tile of a stream.
struct StreamTile {
  const TokenStream* stream;
  RowTile tile;
};

std::vector<StreamTile> CutStreams(const BatchPlan& plan) {
  std::vector<StreamTile> tiles;
  for (const TokenStream& stream : plan.streams) {
    for (const RowTile& tile : CutStream(stream)) tiles.push_back({&stream, tile});
  }
  return tiles;
}

// The rows of one output stream.
struct ContextTile {
  const ContextStream* stream;
  RowTile tile;
};

std::vector<ContextTile> CutContexts(const BatchPlan& plan, const PackedKernel& kernel) {
  std::vector<ContextTile> tiles;
  for (const ContextStream& stream : plan.contexts) {
    for (const RowTile& tile : CutRows(stream.segments, kernel.rows_are_independent(stream.operands))) {
      tiles.push_back({&stream, tile});
    }
  }
  return tiles;
}

void CopyRows(const HeadInput& from, int64_t sequence, int64_t rows, float* to) {
  if (to == nullptr || rows == 0) return;
  std::copy_n(reinterpret_cast<const float*>(from.At(sequence, 0, 0)), rows * from.token_stride, to);
}

float* At(float* to, int64_t offset) { return to == nullptr ? nullptr : to + offset; }

void CopyProjections(const ProjectedCall& projected) {
  const AttentionCall& call = *projected.call;
  const CallOutputs& also = call.also;
  if (also.query == nullptr && also.key == nullptr && also.value == nullptr) return;
  for (int64_t sequence = 0; sequence < call.batch; ++sequence) {
    const int64_t first_query = sequence * call.q_length;
    const int64_t first_key = sequence * call.kv_length;
    const int64_t keys = std::min(call.kv_length, NeededRows(call, sequence).keys);
    CopyRows(projected.query, sequence, call.LimitsOf(sequence).q_length,
             At(also.query, first_query * call.heads.query_features()));
    CopyRows(projected.key, sequence, keys, At(also.key, first_key * call.heads.key_features()));
    CopyRows(projected.value, sequence, keys, At(also.value, first_key * call.heads.value_features()));
  }
}

// Where the outputs of a tile go, if they go to one place, as they are; else null.
float* OutputsInPlace(const ContextStream& stream, const RowTile& tile, int64_t features) {
  const OutputRows& to = stream.outputs[tile.first_segment];
  const bool in_one = tile.first_row_in_segment + tile.rows <= stream.segments[tile.first_segment].rows;
  const bool is_aligned = reinterpret_cast<uintptr_t>(to.data) % alignof(float) == 0;
  if (!in_one || !is_aligned || to.dtype != DType::kFloat32) return nullptr;
  return reinterpret_cast<float*>(to.data) + tile.first_row_in_segment * features;
}

// Hands each row of a tile of outputs to where it belongs.
void DistributeOutputs(const ContextStream& stream, const RowTile& tile, int64_t features, const float* outputs) {
  int64_t row_in_segment = tile.first_row_in_segment;
  for (int64_t done = 0, i = tile.first_segment; done < tile.rows; ++i, row_in_segment = 0) {
    const OutputRows& to = stream.outputs[i];
    const int64_t rows = std::min(tile.rows - done, stream.segments[i].rows - row_in_segment);
    std::byte* first = to.data + row_in_segment * features * DTypeSize(to.dtype);
    if (rows > 0) FromFloat32(outputs + done * features, rows * features, to.dtype, first);
    done += rows;
  }
}

// Multiplies a tile of context rows with the out kernel.
void ProjectOutputs(const ContextStream& stream, const RowTile& tile, const PackedKernel& kernel, Worker& worker) {
  const int64_t features = kernel.n();
  const float* context = stream.context + tile.first_row * kernel.k();
  const void* operand = TileOperand(worker, stream.operands, tile.rows, kernel.k(), context);
  if (float* in_place = OutputsInPlace(stream, tile, features)) {
    return kernel.Multiply(worker, stream.operands, tile.rows, operand, in_place);
  }
  float* outputs = worker.outputs.Reserve(tile.rows * features);
  kernel.Multiply(worker, stream.operands, tile.rows, operand, outputs);
  DistributeOutputs(stream, tile, features, outputs);
}

}  // namespace

class Engine::Impl {
 public:
  explicit Impl(int num_threads) : num_threads_(num_threads), arena_(num_threads) { arena_.initialize(); }

  void Compute(const Layer* layer, absl::Span<const AttentionCall* const> calls) {
    if (layer == nullptr) return ComputeUnprojected(calls);
    Prepare(layer->kernels(), calls);
    std::unique_ptr<BatchBuffers> buffers = TakeBuffers();
    const LayerShape& shape = layer->shape();
    const CallSlices slices(calls, shape.out_features, SliceTokens(shape.heads));
    for (const auto& wave : CutWaves(slices.slices(), WaveTokens(shape.heads, num_threads_))) {
      ComputeWave(*layer, wave, *buffers);
    }
    ReturnBuffers(std::move(buffers));
  }

 private:
  void ComputeUnprojected(absl::Span<const AttentionCall* const> calls) {
    const BatchPlan plan = PlanUnprojected(calls);
    ForEach(plan.units, [](const AttentionUnit& unit, Worker& worker) { Attend(unit, worker); });
  }

  void ComputeWave(const Layer& layer, absl::Span<const AttentionCall* const> calls, BatchBuffers& buffers) {
    const BatchPlan plan = PlanBatch(layer, calls, buffers);
    ForEach(CutStreams(plan),
            [](const StreamTile& piece, Worker& worker) { ProjectTile(*piece.stream, piece.tile, worker); });
    for (const ProjectedCall& projected : plan.calls) CopyProjections(projected);
    ForEach(plan.units, [](const AttentionUnit& unit, Worker& worker) { Attend(unit, worker); });
    const PackedKernel& out = layer.kernels().out;
    ForEach(CutContexts(plan, out),
            [&](const ContextTile& piece, Worker& worker) { ProjectOutputs(*piece.stream, piece.tile, out, worker); });
  }

  // Kernels are packed for bfloat16 by the first batch that asks for it.
  void Prepare(const PackedKernels& kernels, absl::Span<const AttentionCall* const> calls) {
    const auto is_bfloat16 = [](const AttentionCall* call) { return call->options.compute_dtype == DType::kBFloat16; };
    if (std::none_of(calls.begin(), calls.end(), is_bfloat16)) return;
    arena_.execute([&] { kernels.Prepare(workers_.local().onednn, DType::kBFloat16); });
  }

  // Runs `work` for every piece, each on one thread of the pool.
  template <typename Piece, typename Work>
  void ForEach(const std::vector<Piece>& pieces, const Work& work) {
    if (pieces.empty()) return;
    arena_.execute([&] {
      tbb::parallel_for(
          size_t{0}, pieces.size(), [&](size_t i) { work(pieces[i], workers_.local()); }, tbb::simple_partitioner());
    });
  }

  // One set for each call of Compute that runs at the same time, kept for the next.
  std::unique_ptr<BatchBuffers> TakeBuffers() ABSL_LOCKS_EXCLUDED(mu_) {
    const absl::MutexLock lock(&mu_);
    if (idle_buffers_.empty()) return std::make_unique<BatchBuffers>();
    std::unique_ptr<BatchBuffers> buffers = std::move(idle_buffers_.back());
    idle_buffers_.pop_back();
    return buffers;
  }

  void ReturnBuffers(std::unique_ptr<BatchBuffers> buffers) ABSL_LOCKS_EXCLUDED(mu_) {
    const absl::MutexLock lock(&mu_);
    idle_buffers_.push_back(std::move(buffers));
  }

  const int num_threads_;
  tbb::task_arena arena_;
  tbb::enumerable_thread_specific<Worker> workers_;

  absl::Mutex mu_;
  std::vector<std::unique_ptr<BatchBuffers>> idle_buffers_ ABSL_GUARDED_BY(mu_);
};

absl::StatusOr<std::unique_ptr<Engine>> Engine::Create(int num_threads) {
  std::unique_ptr<Engine> engine;
  const absl::Status status = CatchExceptions("starting the compute pool", [&] {
    engine.reset(new Engine(std::make_unique<Impl>(num_threads)));
    return absl::OkStatus();
  });
  if (!status.ok()) return status;
  return engine;
}

Engine::Engine(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Engine::~Engine() = default;

absl::Status Engine::Compute(const Layer* layer, absl::Span<const AttentionCall* const> calls) {
  return CatchExceptions("computing a batch", [&] {
    impl_->Compute(layer, calls);
    return absl::OkStatus();
  });
}

}  // namespace attention::server
