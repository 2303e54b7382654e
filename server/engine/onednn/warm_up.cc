#include "server/engine/onednn/warm_up.h"

#include <spdlog/spdlog.h>

#include <atomic>
#include <set>
#include <utility>

#include "absl/base/const_init.h"
#include "absl/synchronization/mutex.h"
#include "server/engine/onednn/onednn.h"
#include "server/engine/onednn/tile_shapes.h"

namespace attention::server {
namespace {

// Shapes whose primitives exist already. One object per kind of primitive in the process, as oneDNN's own cache is.
class WarmedShapes {
 public:
  // Returns true if the shape is new.
  bool Add(int64_t a, int64_t b) ABSL_LOCKS_EXCLUDED(mu_) {
    const absl::MutexLock lock(&mu_);
    return shapes_.emplace(a, b).second;
  }

 private:
  absl::Mutex mu_;
  std::set<std::pair<int64_t, int64_t>> shapes_ ABSL_GUARDED_BY(mu_);
};

constexpr DType kOperands[] = {DType::kFloat32, DType::kBFloat16};

void WarmProjection(Onednn& onednn, int64_t k, int64_t n) {
  static WarmedShapes& warmed = *new WarmedShapes;
  if (!warmed.Add(k, n)) return;
  for (const DType operands : kOperands) {
    onednn.MakePacking(k, n, operands);
    for (const int64_t height : kTileHeights) {
      for (const bool with_bias : {false, true}) {
        onednn.MakeMatmul({.m = height, .k = k, .n = n, .with_bias = with_bias, .operands = operands});
      }
    }
  }
}

// The products of a tile with one chunk of keys, for AttendFusedExp and AttendTwoPass.
void WarmProducts(Onednn& onednn, const HeadShape& heads, int64_t height, int64_t columns) {
  for (const DType operands : kOperands) {
    for (const bool flag : {false, true}) {
      onednn.MakeMatmul({.m = height,
                         .k = heads.head_dim + 1,
                         .n = columns,
                         .operands = operands,
                         .weights = WeightsLayout::kTransposed,
                         .exponential = flag});
      onednn.MakeMatmul({.m = height,
                         .k = columns,
                         .n = heads.value_head_dim,
                         .operands = operands,
                         .weights = WeightsLayout::kPlain,
                         .accumulate = flag});
    }
  }
}

void WarmAttention(Onednn& onednn, const HeadShape& heads) {
  static WarmedShapes& warmed = *new WarmedShapes;
  if (!warmed.Add(heads.head_dim, heads.value_head_dim)) return;
  for (int64_t keys = 1; keys <= kMaxChunkKeys; keys = KeyBucket(keys) + 1) {
    for (const int64_t height : kTileHeights) WarmProducts(onednn, heads, height, KeyBucket(keys));
  }
}

// Does not depend on the layer.
void WarmSoftmax(Onednn& onednn) {
  static WarmedShapes& warmed = *new WarmedShapes;
  if (!warmed.Add(0, 0)) return;
  for (int64_t keys = 1; keys <= kMaxSoftmaxKeys; keys = KeyBucket(keys) + 1) {
    for (const int64_t height : kTileHeights) {
      onednn.MakeSoftmax(height, KeyBucket(keys));
      if (keys <= kMaxChunkKeys) onednn.MakeTanh(height, KeyBucket(keys));
    }
  }
}

std::atomic<int64_t> warm_primitives{0};

}  // namespace

void WarmUp(const LayerShape& shape) {
  Onednn onednn;
  WarmProjection(onednn, shape.in_features, shape.heads.query_features());
  WarmProjection(onednn, shape.in_k_features, shape.heads.key_features());
  WarmProjection(onednn, shape.in_v_features, shape.heads.value_features());
  WarmProjection(onednn, shape.heads.context_features(), shape.out_features);
  WarmAttention(onednn, shape.heads);
  WarmSoftmax(onednn);
  const int64_t fresh = onednn.primitives();
  warm_primitives += fresh;
  if (fresh > 0) spdlog::debug("warm-up: {} new primitives, {} in total", fresh, WarmPrimitives());
}

int64_t WarmPrimitives() { return warm_primitives; }

}  // namespace attention::server
