#pragma once

#include <grpcpp/support/status.h>

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "attention/v1/attention.pb.h"
#include "attention/v1/weights.pb.h"
#include "client/attention_client.h"

namespace attention {

// Conversions between the library's types and the messages of attention.v1. request_conversion.cc implements ToProto
// and CheckedRequestSize, reply_conversion.cc the others.

// Size in bytes of the request as an encoded attention.v1.AttendRequest, computed without reading any tensor data.
//
// INVALID_ARGUMENT if the shape and the bytes of a tensor disagree; RESOURCE_EXHAUSTED, with the size and the limit, if
// the request is longer than `max_message_bytes`. REQUIRES: 0 < max_message_bytes < 2^31.
absl::StatusOr<int64_t> CheckedRequestSize(const AttendRequest& request, int64_t max_message_bytes);

// REQUIRES: CheckedRequestSize is OK.
v1::AttendRequest ToProto(const AttendRequest& request);

// The same, or the error of CheckedRequestSize, before any tensor is copied.
absl::StatusOr<v1::AttendRequest> ToProto(const AttendRequest& request, int64_t max_message_bytes);

// The canonical code with its text. A number that is no canonical code becomes UNKNOWN, with the number in the text.
absl::Status ToAbslStatus(int code, const std::string& message);
absl::Status ToAbslStatus(const grpc::Status& status);

// Moves the bytes of the tensors. INTERNAL, with the field, if a tensor has an unknown type or its shape and bytes
// disagree.
absl::StatusOr<AttendReply> FromProto(v1::AttendResponse response);

// INTERNAL as `reply` if it holds neither a response nor an error.
AttendStream::Item FromProto(v1::AttendStreamResponse response);

WeightSetInfo FromProto(const v1::WeightSetInfo& proto);
LoadedCheckpoint FromProto(const v1::LoadCheckpointResponse& response);

// Enums convert by their number.
template <typename Enum, typename Proto>
constexpr bool SameNumber(Enum value, Proto proto) {
  return static_cast<int>(value) == static_cast<int>(proto);
}
static_assert(SameNumber(DataType::kFloat32, v1::DATA_TYPE_FLOAT32));
static_assert(SameNumber(DataType::kBFloat16, v1::DATA_TYPE_BFLOAT16));
static_assert(SameNumber(DataType::kFloat16, v1::DATA_TYPE_FLOAT16));
static_assert(SameNumber(DataType::kFloat64, v1::DATA_TYPE_FLOAT64));
static_assert(SameNumber(DataType::kBool, v1::DATA_TYPE_BOOL));
static_assert(SameNumber(DataType::kInt32, v1::DATA_TYPE_INT32));
static_assert(SameNumber(DataType::kInt64, v1::DATA_TYPE_INT64));
static_assert(SameNumber(HeadAxes::kLengthFeatures, v1::HeadLayout::AXES_LENGTH_FEATURES));
static_assert(SameNumber(HeadAxes::kLengthHeads, v1::HeadLayout::AXES_LENGTH_HEADS));
static_assert(SameNumber(HeadAxes::kHeadsLength, v1::HeadLayout::AXES_HEADS_LENGTH));
static_assert(SameNumber(EmptyRows::kUniform, v1::EMPTY_ROWS_UNIFORM));
static_assert(SameNumber(EmptyRows::kZero, v1::EMPTY_ROWS_ZERO));
static_assert(SameNumber(EmptyRows::kError, v1::EMPTY_ROWS_ERROR));
static_assert(SameNumber(Corner::kTopLeft, v1::Diagonal::CORNER_TOP_LEFT));
static_assert(SameNumber(Corner::kBottomRight, v1::Diagonal::CORNER_BOTTOM_RIGHT));

}  // namespace attention
