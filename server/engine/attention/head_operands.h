#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "server/engine/attention/head_tensor.h"
#include "server/engine/attention_mask.h"
#include "server/engine/kernels/buffer.h"
#include "server/engine/onednn/onednn.h"
#include "server/engine/stop_token.h"

namespace attention::server {

// The tokens of one sequence and head of a HeadInput, with `size` numbers each.
struct HeadRows {
  const HeadInput* tensor = nullptr;
  int64_t sequence = 0;
  int64_t head = 0;
  int64_t size = 0;

  // As HeadTensor::Read.
  void Read(int64_t first, int64_t count, float* to, int64_t to_stride) const {
    tensor->Read(sequence, head, first, count, size, to, to_stride);
  }
};

// Consecutive keys and their values as operands of the two products of attention. They are not packed: oneDNN
// multiplies by plain rows nearly as fast, so packing would pay only with more than a thousand queries.
struct KeyChunk {
  KeyRange range;
  int64_t columns = 0;           // of the scores: the keys, rounded up to the shape of a primitive
  const void* keys = nullptr;    // [columns, head_dim + 1]
  const void* values = nullptr;  // [columns, value_head_dim]
};

// The sum of their columns.
int64_t Columns(absl::Span<const KeyChunk> chunks);

// Keys and values of one sequence and head, in chunks. Each key has an additional last number 1, so the last number of
// a query is added to all its scores. An object is used for many heads; its memory only grows. Not thread-safe.
class HeadOperands {
 public:
  // Reads keys and values, replacing earlier ones, with at most `chunk_keys` keys per chunk. Incomplete if
  // `stop` says stop, which may be null. REQUIRES: `range` is not empty.
  void Read(const Onednn& onednn, DType operands, const HeadRows& keys, const HeadRows& values, KeyRange range,
            int64_t chunk_keys, const StopToken* stop = nullptr);

  const std::vector<KeyChunk>& chunks() const { return chunks_; }

  // The rows that were read, before they were rounded.
  const HeadRows& key_rows() const { return key_rows_; }
  const HeadRows& value_rows() const { return value_rows_; }

  // √Σx² of a key. REQUIRES: it was read.
  float Norm(int64_t key) const { return norms_[key - range_.begin]; }

  // The largest norm of the keys in `range`; NaN or infinite if a key has such a norm. REQUIRES: they were read.
  float LargestNorm(KeyRange range) const;

  // Adds the non-finite values of a chunk, times their weights, to contexts [rows, value_head_dim]. In `values` they
  // are 0, because weight 0 times NaN would be NaN: a key that is hidden from one query may be visible to another one
  // of the same product. `weights` is [rows, chunk.columns]; each row is multiplied by its factor, unless `factors` is
  // null.
  void AddNonFinite(const KeyChunk& chunk, int64_t rows, const float* weights, const double* factors,
                    float* context) const;

 private:
  struct NonFinite {
    int64_t key;
    std::vector<float> value;
  };

  void CutChunks(int64_t chunk_keys);
  void MeasureKeys(int64_t size, const KeyChunk& chunk, const float* rows);
  void ExtractNonFinite(DType operands, int64_t size, const KeyChunk& chunk, float* values);

  HeadRows key_rows_;
  HeadRows value_rows_;
  KeyRange range_;
  std::vector<KeyChunk> chunks_;
  std::vector<float> norms_;          // of each key
  std::vector<float> largest_norms_;  // largest norm of all keys up to each key
  std::vector<NonFinite> non_finite_;
  Buffer rows_;      // of one chunk, before rounding
  Buffer operands_;  // of all chunks
};

// The mean [rows.size] of the first `count` tokens; zeros if count is 0. Undefined if `stop` says stop, which may be
// null.
std::vector<float> MeanRow(const HeadRows& rows, int64_t count, const StopToken* stop);

}  // namespace attention::server
