#include "server/rpc/segment_validation.h"

#include <cstring>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "server/rpc/tensor_validation.h"

namespace attention::server {
namespace {

struct Ids {
  std::vector<int64_t> values;
  int64_t batch_stride = 0;
};

// From any address, aligned or not.
template <typename From>
std::vector<int64_t> ToInt64(const std::byte* data, int64_t count) {
  std::vector<int64_t> values(count);
  for (int64_t i = 0; i < count; ++i) {
    From value;
    std::memcpy(&value, data + i * sizeof(From), sizeof(From));
    values[i] = value;
  }
  return values;
}

absl::StatusOr<Ids> ReadIds(absl::string_view field, const v1::Tensor& tensor, absl::Span<const int64_t> batch,
                            int64_t length) {
  const absl::StatusOr<TensorView> view = CheckTensor(field, tensor, WantedDType::kId);
  if (!view.ok()) return view.status();
  const Shape for_all = {length};
  Shape for_each(batch.begin(), batch.end());
  for_each.push_back(length);
  if (view->shape != for_all && view->shape != for_each) {
    return absl::InvalidArgumentError(
        absl::StrCat(field, ": shape ", ShapeString(view->shape), ", wanted ", ShapeString(for_each),
                     batch.empty() ? "" : absl::StrCat(" or ", ShapeString(for_all), " for all rows of the batch")));
  }
  const int64_t count = *ElementCount(view->shape);
  return Ids{view->dtype == DType::kInt32 ? ToInt64<int32_t>(view->data, count) : ToInt64<int64_t>(view->data, count),
             view->shape == for_all ? 0 : length};
}

absl::Status Missing(absl::string_view field, absl::string_view with) {
  return absl::InvalidArgumentError(absl::StrCat(field, ": missing, wanted with ", with));
}

}  // namespace

absl::StatusOr<SegmentIds> CheckSegments(const v1::Mask& mask, const ScoresShape& scores, bool k_is_q) {
  const bool has_q = mask.has_q_segment_ids(), has_kv = mask.has_kv_segment_ids();
  if (!has_q && !has_kv) return SegmentIds();
  if (!has_q) return Missing("mask.q_segment_ids", "mask.kv_segment_ids");
  if (!has_kv && !k_is_q) return Missing("mask.kv_segment_ids", "mask.q_segment_ids, since inputs_k is given");

  auto q = ReadIds("mask.q_segment_ids", mask.q_segment_ids(), scores.batch, scores.q_length);
  if (!q.ok()) return q.status();
  if (!has_kv) return SegmentIds{q->values, q->values, q->batch_stride, q->batch_stride};
  auto kv = ReadIds("mask.kv_segment_ids", mask.kv_segment_ids(), scores.batch, scores.kv_length);
  if (!kv.ok()) return kv.status();
  return SegmentIds{std::move(q->values), std::move(kv->values), q->batch_stride, kv->batch_stride};
}

}  // namespace attention::server
