#include "client/cli/head_axes.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "client/cli/number_format.h"

namespace attention::cli {
namespace {

bool HasHeads(const Numbers& tensor, HeadAxes axes, int64_t heads) {
  const int64_t rank = tensor.rank();
  if (heads < 1) return false;
  if (axes == HeadAxes::kLengthFeatures) return rank >= 2 && tensor.shape[rank - 1] % heads == 0;
  return rank >= 3 && tensor.shape[axes == HeadAxes::kLengthHeads ? rank - 2 : rank - 3] == heads;
}

// [batch…, heads, length, width] to [batch…, length, heads, width].
Numbers SwapHeadsAndLength(const Numbers& tensor) {
  Numbers result = tensor;
  const int64_t rank = tensor.rank();
  const int64_t heads = tensor.shape[rank - 3], length = tensor.shape[rank - 2], width = tensor.shape[rank - 1];
  std::swap(result.shape[rank - 3], result.shape[rank - 2]);
  const int64_t matrix = heads * length * width;
  for (int64_t from = 0; from < static_cast<int64_t>(tensor.values.size()); from += width) {
    const int64_t row = from % matrix / width;
    const int64_t to = from - from % matrix + (row % length * heads + row / length) * width;
    std::copy_n(tensor.values.begin() + from, width, result.values.begin() + to);
  }
  return result;
}

}  // namespace

absl::StatusOr<Numbers> ToLengthHeads(const Numbers& tensor, HeadAxes axes, int64_t heads) {
  if (!HasHeads(tensor, axes, heads)) {
    return absl::InvalidArgumentError(absl::StrCat("shape ", FormatShape(tensor.shape), " is not ", AxesText(axes),
                                                   " with ", CountOf(heads, "head")));
  }
  if (axes == HeadAxes::kHeadsLength) return SwapHeadsAndLength(tensor);
  Numbers result = tensor;
  if (axes == HeadAxes::kLengthFeatures) {
    result.shape.insert(result.shape.end() - 1, heads);
    result.shape.back() /= heads;
  }
  return result;
}

const char* AxesText(HeadAxes axes) {
  switch (axes) {
    case HeadAxes::kLengthFeatures:
      return "[batch…, length, heads × head_dim]";
    case HeadAxes::kLengthHeads:
      return "[batch…, length, heads, head_dim]";
    case HeadAxes::kHeadsLength:
      return "[batch…, heads, length, head_dim]";
  }
  return "unknown axes";
}

std::string HeadsText(const HeadSizes& sizes) {
  std::string text = absl::StrCat(CountOf(sizes.num_heads, "head"), " of ", CountOf(sizes.head_dim, "number"));
  if (sizes.num_kv_heads != sizes.num_heads) {
    absl::StrAppend(&text, ", ", CountOf(sizes.num_kv_heads, "head"), " of keys and values");
  }
  if (sizes.value_head_dim != sizes.head_dim) {
    absl::StrAppend(&text, ", values of ", CountOf(sizes.value_head_dim, "number"));
  }
  return text;
}

}  // namespace attention::cli
