#include "server/rpc/validation/options_validation.h"

#include <cmath>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "server/checkpoint/field_error.h"
#include "server/rpc/proto_conversion.h"
#include "server/rpc/validation/tensor_validation.h"

namespace attention::server {
namespace {

absl::StatusOr<DType> CheckComputeDType(v1::DataType dtype) {
  if (dtype == v1::DATA_TYPE_UNSPECIFIED) return DType::kFloat32;
  if (auto status = CheckDType("options.compute_dtype", dtype, AcceptedDTypes::kCompute); !status.ok()) return status;
  return *DTypeFromProto(dtype);
}

absl::StatusOr<EmptyRowRule> CheckEmptyRows(v1::EmptyRows rule) {
  if (rule == v1::EMPTY_ROWS_UNSPECIFIED) return EmptyRowRule::kUniform;
  if (const std::optional<EmptyRowRule> known = EmptyRowRuleFromProto(rule)) return *known;
  return FieldError("options.empty_rows", "UNIFORM, ZERO or ERROR", static_cast<int>(rule));
}

}  // namespace

absl::StatusOr<AttentionOptions> CheckOptions(const v1::AttendOptions& options, int64_t head_dim, int64_t kv_length) {
  const auto compute_dtype = CheckComputeDType(options.compute_dtype());
  if (!compute_dtype.ok()) return compute_dtype.status();
  const auto empty_rows = CheckEmptyRows(options.empty_rows());
  if (!empty_rows.ok()) return empty_rows.status();
  if (options.has_scale() && !std::isfinite(options.scale())) {
    return FieldError("options.scale", "a finite number", options.scale());
  }
  if (options.has_softcap() && !(options.softcap() > 0 && std::isfinite(options.softcap()))) {
    return FieldError("options.softcap", "a finite number above 0", options.softcap());
  }
  if (options.top_k() < 0 || options.top_k() > kv_length) {
    return FieldError("options.top_k", absl::StrCat("0 to kv_length ", kv_length), options.top_k());
  }
  return AttentionOptions{
      .compute_dtype = *compute_dtype,
      .empty_rows = *empty_rows,
      .scale = options.has_scale() ? options.scale() : 1.0f / std::sqrt(static_cast<float>(head_dim)),
      .softcap = options.softcap(),
      .top_k = options.top_k(),
      .compute_hidden = options.return_intermediates()};
}

absl::StatusOr<DType> CheckOutputDType(const v1::AttendOptions& options, DType inputs_q) {
  const v1::DataType dtype = options.output_dtype();
  if (dtype == v1::DATA_TYPE_UNSPECIFIED) return inputs_q;
  if (auto status = CheckDType("options.output_dtype", dtype, AcceptedDTypes::kFloat); !status.ok()) return status;
  return *DTypeFromProto(dtype);
}

}  // namespace attention::server
