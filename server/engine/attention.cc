#include "server/engine/attention.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "server/engine/score_tile.h"
#include "server/engine/tile_plan.h"

namespace attention::server {
namespace {

// [rows, columns] of a matrix whose rows stand `stride` apart.
struct Rows {
  float* data = nullptr;
  int64_t stride = 0;
};

// Copies rows into a dense matrix of `height` rows, those behind `count` zero.
float* CopyDense(const Rows& from, int64_t count, int64_t height, int64_t columns, Buffer& buffer) {
  float* dense = buffer.Reserve(height * columns);
  for (int64_t row = 0; row < count; ++row) std::copy_n(from.data + row * from.stride, columns, dense + row * columns);
  std::fill(dense + count * columns, dense + height * columns, 0.0f);
  return dense;
}

void Correct(const float* from, int64_t count, double correction, float* to) {
  for (int64_t i = 0; i < count; ++i) to[i] = static_cast<float>(from[i] * correction);
}

// What a tile of scores, not of weights, is copied with.
constexpr auto kUncorrected = [] {
  std::array<double, kTileRows> ones{};
  ones.fill(1.0);
  return ones;
}();

class UnitAttention {
 public:
  UnitAttention(const LayerShape& shape, const AttentionUnit& unit, Worker& worker)
      : shape_(shape),
        unit_(unit),
        call_(*unit.projected->call),
        kv_bucket_(KeyBucket(call_.kv_length)),
        worker_(worker) {}

  void Run() {
    PackKeysAndValues();
    for (int64_t done = 0; done < unit_.queries; done += kTileRows) {
      RunTile(unit_.first_query + done, std::min(kTileRows, unit_.queries - done));
    }
  }

 private:
  // The rows of this sequence and head in [batch, length, num_heads, head_dim].
  Rows HeadRows(float* projected, int64_t length, int64_t first) const {
    const int64_t stride = shape_.qkv_features();
    return {projected + (unit_.sequence * length + first) * stride + unit_.head * shape_.head_dim, stride};
  }

  void PackKeysAndValues() {
    const int64_t length = call_.kv_length;
    const int64_t head_dim = shape_.head_dim;
    const float* keys =
        CopyDense(HeadRows(unit_.projected->key, length, 0), length, kv_bucket_, head_dim, worker_.keys);
    float* packed_keys = worker_.packed_keys.Reserve(worker_.onednn.PackedSize(head_dim, kv_bucket_));
    worker_.onednn.PackTransposed(head_dim, kv_bucket_, keys, packed_keys);

    const float* values =
        CopyDense(HeadRows(unit_.projected->value, length, 0), length, kv_bucket_, head_dim, worker_.keys);
    float* packed_values = worker_.packed_values.Reserve(worker_.onednn.PackedSize(kv_bucket_, head_dim));
    worker_.onednn.Pack(kv_bucket_, head_dim, values, packed_values);
  }

  void RunTile(int64_t first, int64_t rows) {
    const int64_t height = TileHeight(rows);
    const float* query = ScaledQuery(first, rows, height);
    const ScoreTile tile{worker_.scores.Reserve(height * kv_bucket_), rows, call_.kv_length, kv_bucket_};
    worker_.onednn.Matmul({height, shape_.head_dim, kv_bucket_}, query, worker_.packed_keys.data(), nullptr,
                          tile.scores);
    CopyOut(tile, kUncorrected.data(), first, call_.also.scores);

    HideKeys(MaskOf(first), tile);
    worker_.onednn.Softmax(height, kv_bucket_, tile.scores);
    double corrections[kTileRows];
    RowCorrections(tile, corrections);
    CopyOut(tile, corrections, first, call_.also.attn_weights);

    float* context = worker_.context.Reserve(height * shape_.head_dim);
    worker_.onednn.Matmul({height, kv_bucket_, shape_.head_dim}, tile.scores, worker_.packed_values.data(), nullptr,
                          context);
    const Rows to = HeadRows(unit_.projected->context, call_.q_length, first);
    for (int64_t row = 0; row < rows; ++row) {
      Correct(context + row * shape_.head_dim, shape_.head_dim, corrections[row], to.data + row * to.stride);
    }
  }

  const float* ScaledQuery(int64_t first, int64_t rows, int64_t height) {
    const Rows from = HeadRows(unit_.projected->query, call_.q_length, first);
    float* query = CopyDense(from, rows, height, shape_.head_dim, worker_.query);
    const float scale = 1.0f / std::sqrt(static_cast<float>(shape_.head_dim));
    for (int64_t i = 0; i < rows * shape_.head_dim; ++i) query[i] *= scale;
    return query;
  }

  TileMask MaskOf(int64_t first) const {
    const DenseMask& mask = call_.mask;
    if (mask.data == nullptr) return {};
    const int64_t offset = mask.batch_offsets[unit_.sequence] + unit_.head * mask.head_stride + first * mask.q_stride;
    return {mask.data + offset, mask.q_stride, mask.kv_stride};
  }

  // Into [batch, num_heads, q_length, kv_length], if the call wants it.
  void CopyOut(const ScoreTile& tile, const double* corrections, int64_t first, float* to) const {
    if (to == nullptr) return;
    to += ((unit_.sequence * shape_.num_heads + unit_.head) * call_.q_length + first) * call_.kv_length;
    for (int64_t row = 0; row < tile.rows; ++row) {
      Correct(tile.row(row), tile.kv_length, corrections[row], to + row * tile.kv_length);
    }
  }

  const LayerShape& shape_;
  const AttentionUnit& unit_;
  const AttentionCall& call_;
  const int64_t kv_bucket_;
  Worker& worker_;
};

}  // namespace

void Attend(const LayerShape& shape, const AttentionUnit& unit, Worker& worker) {
  UnitAttention(shape, unit, worker).Run();
}

}  // namespace attention::server
