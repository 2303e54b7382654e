#include "client/request_size.h"

#include <google/protobuf/io/coded_stream.h>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/conversion.h"

namespace attention {
namespace {

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
absl::Status CheckTensor(absl::string_view field, const TensorRef& tensor, int64_t max_message_bytes) {
  const absl::StatusOr<int64_t> wanted = ByteSize(tensor.dtype, tensor.shape);
  if (!wanted.ok()) return absl::InvalidArgumentError(absl::StrCat(field, ": ", wanted.status().message()));
  if (static_cast<uint64_t>(*wanted) != tensor.bytes.size()) {
    return absl::InvalidArgumentError(absl::StrCat(field, ": shape [", absl::StrJoin(tensor.shape, ", "), "] of ",
                                                   Name(tensor.dtype), " takes ", *wanted, " bytes, got ",
                                                   tensor.bytes.size()));
  }
  if (*wanted > max_message_bytes) return TooLarge(field, *wanted, max_message_bytes);
  return absl::OkStatus();
}

absl::Status CheckTensors(const AttendRequest& request, int64_t max_message_bytes) {
  absl::Status status = CheckTensor("inputs_q", request.inputs_q, max_message_bytes);
  if (status.ok() && request.inputs_k) status = CheckTensor("inputs_k", *request.inputs_k, max_message_bytes);
  if (status.ok() && request.inputs_v) status = CheckTensor("inputs_v", *request.inputs_v, max_message_bytes);
  if (status.ok() && request.mask) status = CheckTensor("mask", *request.mask, max_message_bytes);
  return status;
}

}  // namespace

absl::StatusOr<int64_t> CheckedRequestSize(const AttendRequest& request, int64_t max_message_bytes) {
  if (absl::Status status = CheckTensors(request, max_message_bytes); !status.ok()) return status;
  int64_t size = static_cast<int64_t>(ToProtoWithoutTensors(request).ByteSizeLong());
  size += FieldSize(TensorSize(request.inputs_q));
  if (request.inputs_k) size += FieldSize(TensorSize(*request.inputs_k));
  if (request.inputs_v) size += FieldSize(TensorSize(*request.inputs_v));
  // The mask's tensor stands in a message of its own.
  if (request.mask) size += FieldSize(FieldSize(TensorSize(*request.mask)));
  if (size > max_message_bytes) return TooLarge("request", size, max_message_bytes);
  return size;
}

}  // namespace attention
