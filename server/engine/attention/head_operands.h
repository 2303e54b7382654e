#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "server/engine/attention/head_tensor.h"
#include "server/engine/attention_mask.h"
#include "server/engine/kernels/buffer.h"
#include "server/engine/onednn/onednn.h"

namespace attention::server {

// One head of a HeadInput of one sequence; `size` numbers a token.
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

// Some consecutive keys with their values, as operands of the two products of attention. oneDNN multiplies by plain
// rows nearly as fast as by packed ones; packing them would pay only beyond a thousand queries.
struct KeyChunk {
  KeyRange range;
  int64_t columns = 0;           // of the scores: the keys, and some that only fill the primitive's shape
  const void* keys = nullptr;    // [columns, head_dim + 1]
  const void* values = nullptr;  // [columns, value_head_dim]
};

// Columns of all of them together.
int64_t Columns(absl::Span<const KeyChunk> chunks);

// Some keys of one sequence and head with their values, in chunks. Each key has one more number, 1, behind its own: so
// a query can bring a number that is added to all its scores. Used again and again; its memory only grows. Not
// thread-safe.
class HeadOperands {
 public:
  // At most `chunk_keys` keys a chunk. REQUIRES: `range` is not empty.
  void Read(const Onednn& onednn, DType operands, const HeadRows& keys, const HeadRows& values, KeyRange range,
            int64_t chunk_keys);

  const std::vector<KeyChunk>& chunks() const { return chunks_; }

  // The largest √Σx² of the keys in `range`, NaN or infinite if one of them is. REQUIRES: they were read.
  float LargestNorm(KeyRange range) const;

  // Values that are not finite as operands stand in the rows as 0 and are added here, to the contexts [rows,
  // value_head_dim]: weight 0 times NaN would be NaN, and a key that is hidden from one query can be visible to the
  // next in the same product. `weights` are [rows, chunk.columns], each row to be multiplied by its factor if there are
  // any.
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

  KeyRange range_;
  std::vector<KeyChunk> chunks_;
  std::vector<float> norms_;          // of each key
  std::vector<float> largest_norms_;  // of the keys up to each
  std::vector<NonFinite> non_finite_;
  Buffer rows_;      // of one chunk, before they are rounded
  Buffer operands_;  // of all chunks
};

// The mean of `count` rows from the first on, [rows.size]; zeros if there are none.
std::vector<float> MeanRow(const HeadRows& rows, int64_t count);

}  // namespace attention::server
