#include "server/engine/engine.h"

#include <oneapi/tbb/enumerable_thread_specific.h>
#include <oneapi/tbb/parallel_for.h>
#include <oneapi/tbb/task_arena.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "server/engine/batch_plan.h"
#include "server/engine/catch_exceptions.h"
#include "server/engine/packing.h"
#include "server/engine/projection.h"
#include "server/engine/worker.h"

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

void CopyRows(const float* from, int64_t count, float* to) {
  if (to != nullptr) std::copy_n(from, count, to);
}

void CopyProjections(const LayerShape& shape, const ProjectedCall& projected) {
  const AttentionCall& call = *projected.call;
  const int64_t query_count = call.batch * call.q_length * shape.qkv_features();
  const int64_t key_count = call.batch * call.kv_length * shape.qkv_features();
  CopyRows(projected.query, query_count, call.also.query);
  CopyRows(projected.key, key_count, call.also.key);
  CopyRows(projected.value, key_count, call.also.value);
  CopyRows(projected.context, query_count, call.also.context);
}

// Multiplies a tile of context rows with the out kernel and hands each row to the call that it belongs to.
void ProjectOutputs(const BatchPlan& plan, const RowTile& tile, const PackedKernel& kernel, Worker& worker) {
  const int64_t features = kernel.n();
  const float* context = plan.calls.front().context + tile.first_row * kernel.k();
  float* outputs = worker.outputs.Reserve(tile.rows * features);
  kernel.Multiply(worker, tile.rows, context, outputs);
  int64_t row_in_call = tile.first_row_in_segment;
  for (int64_t done = 0, i = tile.first_segment; done < tile.rows; ++i, row_in_call = 0) {
    const AttentionCall& call = *plan.calls[i].call;
    const int64_t rows = std::min(tile.rows - done, plan.context_rows[i].rows - row_in_call);
    std::byte* to = call.output + row_in_call * features * DTypeSize(call.output_dtype);
    if (rows > 0) FromFloat32(outputs + done * features, rows * features, call.output_dtype, to);
    done += rows;
  }
}

}  // namespace

class Engine::Impl {
 public:
  explicit Impl(int num_threads) : arena_(num_threads) { arena_.initialize(); }

  void Compute(const Layer& layer, absl::Span<const AttentionCall* const> calls) {
    std::unique_ptr<BatchBuffers> buffers = TakeBuffers();
    const BatchPlan plan = PlanBatch(layer, calls, *buffers);

    const std::vector<StreamTile> inputs = CutStreams(plan);
    ForEach(inputs, [](const StreamTile& piece, Worker& worker) { ProjectTile(*piece.stream, piece.tile, worker); });

    const LayerShape& shape = layer.shape();
    ForEach(plan.units, [&](const AttentionUnit& unit, Worker& worker) { Attend(shape, unit, worker); });
    for (const ProjectedCall& projected : plan.calls) CopyProjections(shape, projected);

    const PackedKernel& out = layer.kernels().out;
    ForEach(CutRows(plan.context_rows, out.rows_are_independent()),
            [&](const RowTile& tile, Worker& worker) { ProjectOutputs(plan, tile, out, worker); });
    ReturnBuffers(std::move(buffers));
  }

 private:
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

absl::Status Engine::Compute(const Layer& layer, absl::Span<const AttentionCall* const> calls) {
  return CatchExceptions("computing a batch", [&] {
    impl_->Compute(layer, calls);
    return absl::OkStatus();
  });
}

}  // namespace attention::server
