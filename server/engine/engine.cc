#include "server/engine/engine.h"

#include <oneapi/tbb/enumerable_thread_specific.h>
#include <oneapi/tbb/parallel_for.h>
#include <oneapi/tbb/task_arena.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <iterator>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "server/engine/attention/worker.h"
#include "server/engine/kernels/row_kernels.h"
#include "server/engine/onednn/self_check.h"
#include "server/engine/plan/batch_plan.h"
#include "server/engine/plan/waves.h"
#include "server/engine/projection/packed_kernel.h"
#include "server/engine/projection/projection.h"
#include "server/runtime/catch_exceptions.h"

namespace attention::server {
namespace {

template <typename AnyProjection>
struct ProjectionTile {
  const AnyProjection* projection;
  RowTile tile;
};

template <typename AnyProjection, typename... Kernel>
std::vector<ProjectionTile<AnyProjection>> CutAll(const std::vector<AnyProjection>& projections,
                                                  const Kernel&... kernel) {
  std::vector<ProjectionTile<AnyProjection>> tiles;
  for (const AnyProjection& projection : projections) {
    for (const RowTile& tile : CutProjection(projection, kernel...)) tiles.push_back({&projection, tile});
  }
  return tiles;
}

bool ShouldStop(const CallSlice& slice) { return slice.call->ShouldStop(); }

// The slices whose calls should still be computed.
std::vector<CallSlice> LiveSlices(absl::Span<const CallSlice> slices) {
  std::vector<CallSlice> live;
  std::copy_if(slices.begin(), slices.end(), std::back_inserter(live), std::not_fn(ShouldStop));
  return live;
}

// Which threads compute a batch.
enum class Threads : uint8_t { kCaller, kPool };

Threads ThreadsFor(absl::Span<const AttentionCall* const> calls) {
  double cost = 0;
  for (const AttentionCall* call : calls) {
    if (call->cost == 0) return Threads::kPool;
    cost += call->cost;
  }
  return cost <= Engine::kCallerCost ? Threads::kCaller : Threads::kPool;
}

// Copies the tokens of one sequence to an extra output [batch, length, features], unless it is null. Returns whether
// all numbers are finite.
bool CopyTokens(const HeadInput& from, int64_t sequence, int64_t tokens, int64_t length, float* to) {
  if (to == nullptr || tokens == 0) return true;
  const int64_t features = from.token_stride;
  const auto* numbers = reinterpret_cast<const float*>(from.At(sequence, 0, 0));
  std::copy_n(numbers, tokens * features, to + sequence * length * features);
  return AllFinite(numbers, tokens * features, 1);
}

// Copies query, key and value of a slice to the extra outputs.
void CopyProjections(const SliceTensors& tensors) {
  const AttentionCall& call = *tensors.slice.call;
  const AttentionShape& shape = call.shape;
  const ExtraOutputs& extra = call.extra_outputs;
  if (extra.query == nullptr && extra.key == nullptr && extra.value == nullptr) return;
  for (int64_t i = 0; i < tensors.slice.sequences; ++i) {
    const int64_t sequence = tensors.slice.first_sequence + i;
    const int64_t keys = std::min(shape.kv_length, TokensOf(call, sequence).keys);
    const int64_t queries = call.LimitsOf(sequence).q_length;
    if (!CopyTokens(tensors.query, sequence, queries, shape.q_length, extra.query)) {
      call.AddNonFinite(FormulaTensor::kQuery);
    }
    if (!CopyTokens(tensors.key, sequence, keys, shape.kv_length, extra.key)) call.AddNonFinite(FormulaTensor::kKey);
    if (!CopyTokens(tensors.value, sequence, keys, shape.kv_length, extra.value)) {
      call.AddNonFinite(FormulaTensor::kValue);
    }
  }
}

}  // namespace

class Engine::Impl {
 public:
  explicit Impl(int num_threads) : num_threads_(num_threads), arena_(num_threads) { arena_.initialize(); }

  void Compute(const Layer* layer, absl::Span<const AttentionCall* const> calls) {
    const Threads threads = ThreadsFor(calls);
    if (layer == nullptr) return AttendUnits(PlanWithoutLayer(calls), threads);
    PrepareKernels(layer->kernels(), calls);
    std::unique_ptr<WaveBuffers> buffers = TakeBuffers();
    const HeadShape& heads = layer->shape().heads;
    const std::vector<CallSlice> slices = CutCalls(calls, SliceTokens(heads));
    for (const absl::Span<const CallSlice> wave : CutWaves(slices, WaveTokens(heads, num_threads_))) {
      const std::vector<CallSlice> live = LiveSlices(wave);
      if (!live.empty()) ComputeWave(*layer, live, *buffers, threads);
    }
    ReturnBuffers(std::move(buffers));
  }

 private:
  // Stops early only if all its calls stop, because a tile of a projection has tokens of several.
  void ComputeWave(const Layer& layer, absl::Span<const CallSlice> slices, WaveBuffers& buffers, Threads threads) {
    const BatchPlan plan = PlanWave(layer, slices, buffers);
    const auto all_stop = [&] { return std::all_of(slices.begin(), slices.end(), ShouldStop); };
    ForEach(CutAll(plan.projections), threads, [&](const auto& item, Worker& worker) {
      if (!all_stop()) ProjectTile(*item.projection, item.tile, worker);
    });
    for (const SliceTensors& tensors : plan.slices) CopyProjections(tensors);
    AttendUnits(plan, threads);
    const PackedKernel& out = layer.kernels().out;
    ForEach(CutAll(plan.output_projections, out), threads, [&](const auto& item, Worker& worker) {
      if (!all_stop()) ProjectTile(*item.projection, item.tile, out, worker);
    });
  }

  void AttendUnits(const BatchPlan& plan, Threads threads) {
    ForEach(plan.units, threads, [](const AttentionUnit& unit, Worker& worker) {
      if (!ShouldStop(unit.tensors->slice)) Attend(unit, worker);
    });
  }

  // The first batch that uses bfloat16 packs the kernels for it.
  void PrepareKernels(const PackedKernels& kernels, absl::Span<const AttentionCall* const> calls) {
    const auto is_bfloat16 = [](const AttentionCall* call) { return call->options.compute_dtype == DType::kBFloat16; };
    if (std::none_of(calls.begin(), calls.end(), is_bfloat16)) return;
    kernels.Prepare(workers_.local().onednn, DType::kBFloat16);
  }

  // Calls work(item, worker) for every item.
  template <typename Item, typename Work>
  void ForEach(const std::vector<Item>& items, Threads threads, const Work& work) {
    if (items.empty()) return;
    if (threads == Threads::kCaller) {
      Worker& worker = workers_.local();
      for (const Item& item : items) work(item, worker);
      return;
    }
    arena_.execute([&] {
      tbb::parallel_for(
          size_t{0}, items.size(), [&](size_t i) { work(items[i], workers_.local()); }, tbb::simple_partitioner());
    });
  }

  // One set of buffers for each Compute that runs at the same time, kept for later ones.
  std::unique_ptr<WaveBuffers> TakeBuffers() ABSL_LOCKS_EXCLUDED(mu_) {
    const absl::MutexLock lock(&mu_);
    if (idle_buffers_.empty()) return std::make_unique<WaveBuffers>();
    std::unique_ptr<WaveBuffers> buffers = std::move(idle_buffers_.back());
    idle_buffers_.pop_back();
    return buffers;
  }

  void ReturnBuffers(std::unique_ptr<WaveBuffers> buffers) ABSL_LOCKS_EXCLUDED(mu_) {
    const absl::MutexLock lock(&mu_);
    idle_buffers_.push_back(std::move(buffers));
  }

  const int num_threads_;
  tbb::task_arena arena_;
  tbb::enumerable_thread_specific<Worker> workers_;

  absl::Mutex mu_;
  std::vector<std::unique_ptr<WaveBuffers>> idle_buffers_ ABSL_GUARDED_BY(mu_);
};

absl::StatusOr<std::unique_ptr<Engine>> Engine::Create(int num_threads) {
  std::unique_ptr<Engine> engine;
  const absl::Status status = CatchExceptions("starting the compute pool", [&] {
    if (!CheckedKernels().float32.ok()) return CheckedKernels().float32;
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
