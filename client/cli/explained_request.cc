#include "client/cli/explained_request.h"

#include "absl/strings/str_cat.h"

namespace attention::cli {
namespace {

absl::Status Convert(const char* name, const std::optional<TensorRef>& tensor, std::optional<Numbers>& numbers) {
  if (!tensor) return absl::OkStatus();
  absl::StatusOr<Numbers> converted = ToNumbers(*tensor);
  if (!converted.ok()) return absl::InvalidArgumentError(absl::StrCat(name, ": ", converted.status().message()));
  numbers = *std::move(converted);
  return absl::OkStatus();
}

absl::Status CheckLengths(const char* name, const std::vector<int64_t>& lengths, int64_t batch) {
  const auto count = static_cast<int64_t>(lengths.size());
  if (count == 0 || count == batch) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("mask.", name, ": wanted ", batch, ", found ", count));
}

absl::Status CheckIds(const char* name, const std::optional<Numbers>& ids, int64_t batch, int64_t length) {
  const int64_t count = ids ? static_cast<int64_t>(ids->values.size()) : length;
  if (count == length || count == batch * length) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("mask.", name, ": wanted ", length, ", found ", count));
}

}  // namespace

absl::Status TakeRequest(const AttendRequest& request, ExplainedCall& call) {
  std::optional<Numbers> inputs_q;
  const struct {
    const char* name;
    std::optional<TensorRef> tensor;
    std::optional<Numbers>& numbers;
  } tensors[] = {
      {"inputs_q", request.inputs_q, inputs_q},
      {"inputs_k", request.inputs_k, call.inputs_k},
      {"inputs_v", request.inputs_v, call.inputs_v},
      {"bias", request.bias, call.bias},
      {"mask.q_segment_ids", request.mask.q_segment_ids, call.mask.q_segment_ids},
      {"mask.kv_segment_ids", request.mask.kv_segment_ids, call.mask.kv_segment_ids},
  };
  for (const auto& line : tensors) {
    if (absl::Status status = Convert(line.name, line.tensor, line.numbers); !status.ok()) return status;
  }
  call.inputs_q = *std::move(inputs_q);
  if (request.mask.dense) {
    call.mask.dense_shape.emplace(request.mask.dense->shape.begin(), request.mask.dense->shape.end());
  }
  call.mask.causal = request.mask.causal;
  call.mask.window = request.mask.window;
  call.mask.kv_lengths.assign(request.mask.kv_lengths.begin(), request.mask.kv_lengths.end());
  call.mask.q_lengths.assign(request.mask.q_lengths.begin(), request.mask.q_lengths.end());
  if (!call.mask.kv_segment_ids) call.mask.kv_segment_ids = call.mask.q_segment_ids;
  call.scale_is_default = !request.scale.has_value();
  if (request.scale) call.scale = *request.scale;
  call.softcap = request.softcap;
  call.empty_rows = request.empty_rows;
  call.rounds_to_bfloat16 = request.compute_dtype == DataType::kBFloat16;
  return absl::OkStatus();
}

absl::Status CheckMask(const ExplainedCall& call) {
  const ExplainedMask& mask = call.mask;
  absl::Status status = CheckLengths("kv_lengths", mask.kv_lengths, call.batch);
  status.Update(CheckLengths("q_lengths", mask.q_lengths, call.batch));
  status.Update(CheckIds("q_segment_ids", mask.q_segment_ids, call.batch, call.q_length));
  status.Update(CheckIds("kv_segment_ids", mask.kv_segment_ids, call.batch, call.kv_length));
  return status;
}

}  // namespace attention::cli
