#include "server/rpc/validation/broadcast.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace attention::server {
namespace {

// The scores' sizes in a row, as the tensor's are.
Shape Sizes(const ScoresShape& scores) {
  Shape sizes(scores.batch.begin(), scores.batch.end());
  sizes.insert(sizes.end(), {scores.num_heads, scores.q_length, scores.kv_length});
  return sizes;
}

bool Fits(absl::Span<const int64_t> tensor, absl::Span<const int64_t> scores) {
  const auto fits = [](int64_t from, int64_t to) { return from == 1 || from == to; };
  return tensor.size() <= scores.size() && std::equal(tensor.rbegin(), tensor.rend(), scores.rbegin(), fits);
}

// For each axis of the scores, how far its neighbour is away in the tensor; 0 where one element holds for all.
Shape Strides(absl::Span<const int64_t> tensor, size_t axes) {
  Shape strides(axes, 0);
  int64_t stride = 1;
  for (size_t i = 0; i < tensor.size(); ++i) {
    const int64_t size = tensor[tensor.size() - 1 - i];
    strides[axes - 1 - i] = size == 1 ? 0 : stride;
    stride *= size;
  }
  return strides;
}

// Offset of every row of the folded batch: each axis, outermost first, repeats what there is `size` times.
std::vector<int64_t> BatchOffsets(absl::Span<const int64_t> batch, absl::Span<const int64_t> strides) {
  std::vector<int64_t> offsets = {0};
  for (size_t axis = 0; axis < batch.size(); ++axis) {
    std::vector<int64_t> finer;
    finer.reserve(offsets.size() * batch[axis]);
    for (const int64_t offset : offsets) {
      for (int64_t i = 0; i < batch[axis]; ++i) finer.push_back(offset + i * strides[axis]);
    }
    offsets = std::move(finer);
  }
  return offsets;
}

}  // namespace

absl::StatusOr<ScoresTensor> BroadcastToScores(absl::string_view field, const TensorView& tensor,
                                               const ScoresShape& scores) {
  const Shape sizes = Sizes(scores);
  if (!Fits(tensor.shape, sizes)) {
    return absl::InvalidArgumentError(absl::StrCat(field, ": shape ", ShapeString(tensor.shape),
                                                   " does not broadcast to ", ShapeString(sizes),
                                                   " ([batch…, num_heads, q_length, kv_length])"));
  }
  if (absl::c_linear_search(sizes, 0)) return ScoresTensor();

  const Shape strides = Strides(tensor.shape, sizes.size());
  const size_t batch_axes = scores.batch.size();
  return ScoresTensor{.dtype = tensor.dtype,
                      .data = tensor.data,
                      .batch_offsets = BatchOffsets(scores.batch, strides),
                      .head_stride = strides[batch_axes],
                      .q_stride = strides[batch_axes + 1],
                      .kv_stride = strides[batch_axes + 2]};
}

}  // namespace attention::server
