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

// The tensors that a reply can have; see attention.v1.AttendResponse.
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

// The tensors of a reply, computed before any of them is allocated.
struct ReplyPlan {
  std::vector<ReplyTensor> tensors;  // the requested ones
  int64_t bytes = 0;                 // sum over the tensors
};

// What determines the sizes of a reply, besides the options of the request.
struct ReplySizes {
  absl::Span<const int64_t> batch;
  int64_t q_length = 0;
  int64_t kv_length = 0;
  HeadShape heads;
  bool projected = true;             // by a layer, so that query, key and value differ from the inputs
  absl::Span<const int64_t> output;  // the axes of the output after the batch axes
  DType output_dtype = DType::kFloat32;
};

// Computes shapes and bytes of a reply with overflow checks, without allocating any of its tensors. RESOURCE_EXHAUSTED,
// with the bytes and --max-message-bytes, if the message would be longer than `max_message_bytes`. REQUIRES:
// options.top_k is between 0 and kv_length.
absl::StatusOr<ReplyPlan> PlanReply(const ReplySizes& sizes, const v1::AttendOptions& options,
                                    int64_t max_message_bytes);

// Allocates the planned tensors in `response`, filled with zeros, and sets the output pointers of `call` to their
// bytes, which the engine fills in place. Throws std::bad_alloc.
void AllocateReply(const ReplyPlan& plan, v1::AttendResponse* response, AttentionCall* call);

// Sets AttendResponse.empty_rows. INVALID_ARGUMENT, with the number of empty rows and the first of them, if there are
// any and the rule is kError.
absl::Status ReportEmptyRows(const EmptyRowCounter& rows, EmptyRowRule rule, v1::AttendResponse* response);

}  // namespace attention::server
