#include "server/rpc/proto_conversion.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "server/weights/repository.h"

namespace attention::server {
namespace {

constexpr std::pair<v1::DataType, DType> kDTypes[] = {
    {v1::DATA_TYPE_FLOAT32, DType::kFloat32}, {v1::DATA_TYPE_BFLOAT16, DType::kBFloat16},
    {v1::DATA_TYPE_FLOAT16, DType::kFloat16}, {v1::DATA_TYPE_FLOAT64, DType::kFloat64},
    {v1::DATA_TYPE_BOOL, DType::kBool},       {v1::DATA_TYPE_INT8, DType::kInt8},
    {v1::DATA_TYPE_UINT8, DType::kUInt8},     {v1::DATA_TYPE_INT16, DType::kInt16},
    {v1::DATA_TYPE_UINT16, DType::kUInt16},   {v1::DATA_TYPE_INT32, DType::kInt32},
    {v1::DATA_TYPE_UINT32, DType::kUInt32},   {v1::DATA_TYPE_INT64, DType::kInt64},
    {v1::DATA_TYPE_UINT64, DType::kUInt64},
};

constexpr std::pair<v1::EmptyRows, EmptyRowRule> kEmptyRowRules[] = {
    {v1::EMPTY_ROWS_UNIFORM, EmptyRowRule::kUniform},
    {v1::EMPTY_ROWS_ZERO, EmptyRowRule::kZero},
    {v1::EMPTY_ROWS_ERROR, EmptyRowRule::kError},
};

// [length, heads × head_dim] has the same memory layout as [length, heads, head_dim].
constexpr std::pair<v1::HeadLayout::Axes, HeadAxes> kHeadAxes[] = {
    {v1::HeadLayout::AXES_LENGTH_FEATURES, HeadAxes::kLengthHeads},
    {v1::HeadLayout::AXES_LENGTH_HEADS, HeadAxes::kLengthHeads},
    {v1::HeadLayout::AXES_HEADS_LENGTH, HeadAxes::kHeadsLength},
};

constexpr std::pair<v1::BatchCloseReason, BatchCloseReason> kBatchCloseReasons[] = {
    {v1::BATCH_CLOSE_REASON_QUEUE_DRAINED, BatchCloseReason::kQueueDrained},
    {v1::BATCH_CLOSE_REASON_TIMEOUT, BatchCloseReason::kTimeout},
    {v1::BATCH_CLOSE_REASON_MAX_REQUESTS, BatchCloseReason::kMaxRequests},
    {v1::BATCH_CLOSE_REASON_MAX_TOKENS, BatchCloseReason::kMaxTokens},
    {v1::BATCH_CLOSE_REASON_MAX_COST, BatchCloseReason::kMaxCost},
};

// Every value but UNSPECIFIED must be in its table.
static_assert(std::size(kDTypes) == v1::DataType_ARRAYSIZE - 1);
static_assert(std::size(kEmptyRowRules) == v1::EmptyRows_ARRAYSIZE - 1);
static_assert(std::size(kHeadAxes) == v1::HeadLayout::Axes_ARRAYSIZE - 1);
static_assert(std::size(kBatchCloseReasons) == v1::BatchCloseReason_ARRAYSIZE - 1);

template <typename Proto, typename Server, size_t size>
std::optional<Server> FromProto(const std::pair<Proto, Server> (&table)[size], Proto proto) {
  const auto found =
      std::find_if(std::begin(table), std::end(table), [&](const auto& row) { return row.first == proto; });
  if (found == std::end(table)) return std::nullopt;
  return found->second;
}

// REQUIRES: `value` is in the table.
template <typename Proto, typename Server, size_t size>
Proto ToProto(const std::pair<Proto, Server> (&table)[size], Server value) {
  return std::find_if(std::begin(table), std::end(table), [&](const auto& row) { return row.second == value; })->first;
}

}  // namespace

std::optional<DType> DTypeFromProto(v1::DataType dtype) { return FromProto(kDTypes, dtype); }

std::optional<EmptyRowRule> EmptyRowRuleFromProto(v1::EmptyRows rule) { return FromProto(kEmptyRowRules, rule); }

std::optional<HeadAxes> HeadAxesFromProto(v1::HeadLayout::Axes axes) { return FromProto(kHeadAxes, axes); }

v1::DataType DTypeToProto(DType dtype) { return ToProto(kDTypes, dtype); }

v1::BatchCloseReason BatchCloseReasonToProto(BatchCloseReason reason) { return ToProto(kBatchCloseReasons, reason); }

std::string DataTypeText(v1::DataType dtype) {
  if (dtype == v1::DATA_TYPE_UNSPECIFIED) return "unspecified";
  const std::optional<DType> known = DTypeFromProto(dtype);
  return known ? std::string(DTypeName(*known)) : absl::StrCat(static_cast<int>(dtype));
}

absl::Span<const int64_t> ShapeOf(const v1::Tensor& tensor) {
  return {tensor.shape().data(), static_cast<size_t>(tensor.shape_size())};
}

TensorView ViewOf(const v1::Tensor& tensor) {
  return {*DTypeFromProto(tensor.dtype()), ShapeOf(tensor), reinterpret_cast<const std::byte*>(tensor.data().data())};
}

void FillInfo(const ServedWeightSet& served, v1::WeightSetInfo* info) {
  const WeightSet& weight_set = *served.weight_set;
  const LayerShape& shape = weight_set.layer->shape();
  info->set_name(weight_set.name);
  info->set_version(weight_set.version);
  info->set_checkpoint(weight_set.checkpoint);
  info->set_in_features(shape.in_features);
  info->set_in_k_features(shape.in_k_features);
  info->set_in_v_features(shape.in_v_features);
  info->set_num_heads(shape.heads.num_heads);
  info->set_num_kv_heads(shape.heads.num_kv_heads);
  info->set_head_dim(shape.heads.head_dim);
  info->set_value_head_dim(shape.heads.value_head_dim);
  info->set_out_features(shape.out_features);
  info->set_bytes(weight_set.layer->bytes());
  info->set_layout(weight_set.layout);
  info->mutable_aliases()->Add(served.aliases.begin(), served.aliases.end());
  for (const ParameterInfo& parameter : weight_set.parameters) {
    if (absl::StartsWith(parameter.name, "query_ln")) info->set_normalize_qk(true);
    v1::ParameterInfo* filled = info->add_parameters();
    filled->set_name(parameter.name);
    filled->set_dtype(DTypeToProto(parameter.dtype));
    filled->mutable_shape()->Add(parameter.shape.begin(), parameter.shape.end());
  }
}

void FillLoaded(const Published& published, v1::LoadCheckpointResponse* response) {
  response->set_checkpoint(published.checkpoint);
  response->set_version(published.version);
  response->set_sha256(published.sha256);
  response->set_format(published.format);
  response->set_unchanged(published.unchanged);
  for (const ServedWeightSet& served : published.weight_sets) FillInfo(served, response->add_weight_sets());
  response->mutable_unused_tensors()->Add(published.unused_tensors.begin(), published.unused_tensors.end());
  response->mutable_dropped_versions()->Add(published.dropped_versions.begin(), published.dropped_versions.end());
  response->mutable_removed_weight_sets()->Add(published.removed_weight_sets.begin(),
                                               published.removed_weight_sets.end());
}

void FillDeleted(const Deleted& deleted, v1::DeleteResponse* response) {
  response->mutable_versions()->Add(deleted.versions.begin(), deleted.versions.end());
  response->mutable_removed_files()->Add(deleted.removed_files.begin(), deleted.removed_files.end());
  response->mutable_remaining_files()->Add(deleted.remaining_files.begin(), deleted.remaining_files.end());
}

}  // namespace attention::server
