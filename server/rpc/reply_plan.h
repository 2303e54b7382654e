#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "attention/v1/attention.pb.h"
#include "server/engine/attention_call.h"
#include "server/engine/layer.h"
#include "server/engine/tensor.h"

namespace attention::server {

// The tensors that a reply can have, as attention.v1.AttendResponse documents them.
enum class ReplyField { kOutput, kQuery, kKey, kValue, kScores, kAttnWeights, kContext };

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

// What the size of a reply depends on.
struct ReplySizes {
  absl::Span<const int64_t> batch;
  int64_t q_length = 0;
  int64_t kv_length = 0;
  LayerShape layer;
  DType output_dtype = DType::kFloat32;
  bool attn_weights = false;
  bool intermediates = false;  // implies attn_weights
};

// Adds up the tensors of a reply, with overflow tests and without allocating any of it. RESOURCE_EXHAUSTED, with the
// bytes and --max-message-bytes, if the message would be longer than `max_message_bytes`.
absl::StatusOr<ReplyPlan> PlanReply(const ReplySizes& sizes, int64_t max_message_bytes);

// Makes the planned tensors in `response` and points the outputs of `call` at their bytes, which the engine fills in
// place. Throws std::bad_alloc.
void AllocateReply(const ReplyPlan& plan, v1::AttendResponse* response, AttentionCall* call);

}  // namespace attention::server
