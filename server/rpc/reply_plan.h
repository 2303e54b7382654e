#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "attention/v1/attention.pb.h"
#include "server/checkpoint/tensor.h"
#include "server/engine/attention_call.h"

namespace attention::server {

// The tensors that a reply can have, as attention.v1.AttendResponse documents them.
enum class ReplyField {
  kOutput,
  kAttnWeights,
  kMeanAttnWeights,
  kTopKeys,
  kTopWeights,
  kLogSumExp,
  kQuery,
  kKey,
  kValue,
  kScores,
  kCappedScores,
  kMaskedScores,
  kContext,
};

struct ReplyTensor {
  ReplyField field = ReplyField::kOutput;
  DType dtype = DType::kFloat32;
  Shape shape;
  int64_t bytes = 0;
};

// What a reply will hold, known before anything of it exists.
struct ReplyPlan {
  std::vector<ReplyTensor> tensors;  // those that were asked for
  int64_t bytes = 0;                 // of all of them
};

// What the size of a reply depends on, beside what was asked for.
struct ReplySizes {
  absl::Span<const int64_t> batch;
  int64_t q_length = 0;
  int64_t kv_length = 0;
  HeadShape heads;
  bool projected = true;             // by a layer, so that query, key and value are no inputs
  absl::Span<const int64_t> output;  // its axes behind those of the batch
  DType output_dtype = DType::kFloat32;
};

// Adds up the tensors of a reply, with overflow tests and without allocating any of it. RESOURCE_EXHAUSTED, with the
// bytes and --max-message-bytes, if the message would be longer than `max_message_bytes`. REQUIRES: options.top_k is
// from 0 to kv_length.
absl::StatusOr<ReplyPlan> PlanReply(const ReplySizes& sizes, const v1::AttendOptions& options,
                                    int64_t max_message_bytes);

// Makes the planned tensors in `response`, all zero, and points the outputs of `call` at their bytes, which the engine
// fills in place. Throws std::bad_alloc.
void AllocateReply(const ReplyPlan& plan, v1::AttendResponse* response, AttentionCall* call);

// Says in the response how many rows saw no key. INVALID_ARGUMENT, with their number and the first of them, if there
// are any and the rule is kError.
absl::Status ReportEmptyRows(const EmptyRowCounter& rows, EmptyRowRule rule, v1::AttendResponse* response);

}  // namespace attention::server
