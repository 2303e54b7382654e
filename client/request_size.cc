#include "client/request_size.h"

#include <google/protobuf/io/coded_stream.h>

#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/conversion.h"

namespace attention {
namespace {

struct Field {
  absl::string_view name;
  const TensorRef* tensor;
};

void AddIfSet(absl::string_view name, const std::optional<TensorRef>& tensor, std::vector<Field>& fields) {
  if (tensor) fields.push_back({name, &*tensor});
}

// Tensors that stand in the request itself, and those that stand in the message of its mask.
std::vector<Field> OwnTensors(const AttendRequest& request) {
  std::vector<Field> fields = {{"inputs_q", &request.inputs_q}};
  AddIfSet("inputs_k", request.inputs_k, fields);
  AddIfSet("inputs_v", request.inputs_v, fields);
  AddIfSet("bias", request.bias, fields);
  return fields;
}

std::vector<Field> MaskTensors(const Mask& mask) {
  std::vector<Field> fields;
  AddIfSet("mask.dense", mask.dense, fields);
  AddIfSet("mask.q_segment_ids", mask.q_segment_ids, fields);
  AddIfSet("mask.kv_segment_ids", mask.kv_segment_ids, fields);
  return fields;
}

int64_t VarintSize(uint64_t value) { return google::protobuf::io::CodedOutputStream::VarintSize64(value); }

// A field of a length and so many bytes. All field numbers here are below 16, so that a tag is one byte.
int64_t FieldSize(int64_t length) { return 1 + VarintSize(length) + length; }

// proto3 leaves out a field of length 0.
int64_t OptionalFieldSize(int64_t length) { return length == 0 ? 0 : FieldSize(length); }

// REQUIRES: CheckTensor is OK.
int64_t TensorSize(const TensorRef& tensor) {
  int64_t shape_bytes = 0;
  for (const int64_t axis : tensor.shape) shape_bytes += VarintSize(axis);
  const int64_t dtype_bytes = 2;
  return dtype_bytes + OptionalFieldSize(shape_bytes) + OptionalFieldSize(static_cast<int64_t>(tensor.bytes.size()));
}

absl::Status TooLarge(absl::string_view what, int64_t bytes, int64_t limit) {
  return absl::ResourceExhaustedError(
      absl::StrCat(what, ": ", bytes, " bytes are more than the limit of ", limit, " bytes (max_message_bytes)"));
}

// Each tensor alone is held against the limit too, so that the sum over them cannot overflow.
absl::Status CheckTensor(const Field& field, int64_t max_message_bytes) {
  const TensorRef& tensor = *field.tensor;
  const absl::StatusOr<int64_t> wanted = ByteSize(tensor.dtype, tensor.shape);
  if (!wanted.ok()) return absl::InvalidArgumentError(absl::StrCat(field.name, ": ", wanted.status().message()));
  if (static_cast<uint64_t>(*wanted) != tensor.bytes.size()) {
    return absl::InvalidArgumentError(absl::StrCat(field.name, ": shape [", absl::StrJoin(tensor.shape, ", "), "] of ",
                                                   Name(tensor.dtype), " takes ", *wanted, " bytes, got ",
                                                   tensor.bytes.size()));
  }
  if (*wanted > max_message_bytes) return TooLarge(field.name, *wanted, max_message_bytes);
  return absl::OkStatus();
}

// A length is at least one byte in the message. More of them than the limit would not fit into a message's array.
absl::Status CheckLengths(absl::string_view name, absl::Span<const int64_t> lengths, int64_t max_message_bytes) {
  const auto count = static_cast<int64_t>(lengths.size());
  return count > max_message_bytes ? TooLarge(name, count, max_message_bytes) : absl::OkStatus();
}

}  // namespace

absl::StatusOr<int64_t> CheckedRequestSize(const AttendRequest& request, int64_t max_message_bytes) {
  const std::vector<Field> tensors = OwnTensors(request);
  const std::vector<Field> mask_tensors = MaskTensors(request.mask);
  absl::Status status = CheckLengths("mask.kv_lengths", request.mask.kv_lengths, max_message_bytes);
  status.Update(CheckLengths("mask.q_lengths", request.mask.q_lengths, max_message_bytes));
  for (const Field& field : tensors) status.Update(CheckTensor(field, max_message_bytes));
  for (const Field& field : mask_tensors) status.Update(CheckTensor(field, max_message_bytes));
  if (!status.ok()) return status;

  v1::AttendRequest message = ToProtoWithoutTensors(request);
  const bool has_mask = message.has_mask() || !mask_tensors.empty();
  auto mask_size = static_cast<int64_t>(message.mask().ByteSizeLong());
  for (const Field& field : mask_tensors) mask_size += FieldSize(TensorSize(*field.tensor));
  message.clear_mask();
  auto size = static_cast<int64_t>(message.ByteSizeLong());
  for (const Field& field : tensors) size += FieldSize(TensorSize(*field.tensor));
  if (has_mask) size += FieldSize(mask_size);
  if (size > max_message_bytes) return TooLarge("request", size, max_message_bytes);
  return size;
}

}  // namespace attention
