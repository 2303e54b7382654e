#include "server/rpc/mask_validation.h"

#include <algorithm>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "server/rpc/tensor_validation.h"

namespace attention::server {
namespace {

constexpr absl::string_view kField = "mask.dense";

// The scores' sizes in a row, as the mask's are.
Shape Sizes(const ScoresShape& scores) {
  Shape sizes(scores.batch.begin(), scores.batch.end());
  sizes.insert(sizes.end(), {scores.num_heads, scores.q_length, scores.kv_length});
  return sizes;
}

absl::Status CheckBroadcast(absl::Span<const int64_t> mask, absl::Span<const int64_t> scores) {
  const auto fits = [](int64_t from, int64_t to) { return from == 1 || from == to; };
  if (mask.size() <= scores.size() && std::equal(mask.rbegin(), mask.rend(), scores.rbegin(), fits)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(kField, ": shape ", ShapeString(mask), " does not broadcast to ",
                                                 ShapeString(scores), " ([batch…, num_heads, q_length, kv_length])"));
}

absl::Status CheckTruthValues(absl::Span<const uint8_t> bytes) {
  // A loop without an exit, which the compiler turns into vector code: masks can have many millions of entries.
  uint8_t all = 0;
  for (const uint8_t byte : bytes) all |= byte;
  if (all <= 1) return absl::OkStatus();
  const auto bad = absl::c_find_if(bytes, [](uint8_t byte) { return byte > 1; });
  return absl::InvalidArgumentError(
      absl::StrCat(kField, ": element ", bad - bytes.begin(), " is ", *bad, ", wanted a bool: 0 or 1"));
}

// For each axis of the scores, how far its neighbour is away in the mask; 0 where one entry holds for all.
Shape Strides(absl::Span<const int64_t> mask, size_t axes) {
  Shape strides(axes, 0);
  int64_t stride = 1;
  for (size_t i = 0; i < mask.size(); ++i) {
    const int64_t size = mask[mask.size() - 1 - i];
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

absl::StatusOr<DenseMask> CheckMask(const v1::Tensor& mask, const ScoresShape& scores) {
  const absl::StatusOr<TensorView> view = CheckTensor(kField, mask, WantedDType::kBool);
  if (!view.ok()) return view.status();
  const Shape sizes = Sizes(scores);
  if (auto status = CheckBroadcast(view->shape, sizes); !status.ok()) return status;
  const auto* data = reinterpret_cast<const uint8_t*>(view->data);
  if (auto status = CheckTruthValues({data, mask.data().size()}); !status.ok()) return status;
  if (absl::c_linear_search(sizes, 0)) return DenseMask();

  const Shape strides = Strides(view->shape, sizes.size());
  const size_t batch_axes = scores.batch.size();
  return DenseMask{.data = data,
                   .batch_offsets = BatchOffsets(scores.batch, strides),
                   .head_stride = strides[batch_axes],
                   .q_stride = strides[batch_axes + 1],
                   .kv_stride = strides[batch_axes + 2]};
}

}  // namespace attention::server
