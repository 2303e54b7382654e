#pragma once

#include <optional>
#include <string>

#include "absl/types/span.h"
#include "attention/v1/attention.pb.h"
#include "attention/v1/weights.pb.h"
#include "server/batching/task.h"
#include "server/checkpoint/tensor.h"
#include "server/engine/attention_call.h"
#include "server/weights/registry.h"
#include "server/weights/upload.h"

// Conversions between the server's types and the messages of attention.v1. The enums of the API have their server-side
// counterparts only here.
namespace attention::server {

struct Deleted;  // server/weights/repository.h

// The From functions return nothing for UNSPECIFIED and for numbers outside the enum.
std::optional<DType> DTypeFromProto(v1::DataType dtype);
std::optional<EmptyRowRule> EmptyRowRuleFromProto(v1::EmptyRows rule);
std::optional<HeadAxes> HeadAxesFromProto(v1::HeadLayout::Axes axes);

v1::DataType DTypeToProto(DType dtype);
v1::BatchCloseReason BatchCloseReasonToProto(BatchCloseReason reason);

// "float32", "unspecified", or the number if it is not in the enum.
std::string DataTypeText(v1::DataType dtype);

// Views of a tensor message, which keeps the memory. REQUIRES for ViewOf: DTypeFromProto knows the dtype.
absl::Span<const int64_t> ShapeOf(const v1::Tensor& tensor);
TensorView ViewOf(const v1::Tensor& tensor);

// Fill empty messages.
void FillInfo(const ServedWeightSet& served, v1::WeightSetInfo* info);
void FillLoaded(const Published& published, v1::LoadCheckpointResponse* response);
void FillDeleted(const Deleted& deleted, v1::DeleteResponse* response);

}  // namespace attention::server
