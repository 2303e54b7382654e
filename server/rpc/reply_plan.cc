#include "server/rpc/reply_plan.h"

#include <initializer_list>
#include <optional>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "server/rpc/tensor_proto.h"

namespace attention::server {
namespace {

// More than all of a reply but the elements can take: seven shapes of at most nine axes, two names of at most 128
// bytes, the timing, tags and lengths.
constexpr int64_t kEnvelopeBytes = 2048;

ReplyTensor Planned(ReplyField field, DType dtype, absl::Span<const int64_t> batch,
                    std::initializer_list<int64_t> rest) {
  ReplyTensor tensor{.field = field, .dtype = dtype, .shape = Shape(batch.begin(), batch.end())};
  tensor.shape.insert(tensor.shape.end(), rest);
  return tensor;
}

std::vector<ReplyTensor> PlannedTensors(const ReplySizes& sizes) {
  const LayerShape& layer = sizes.layer;
  const auto float32 = [&](ReplyField field, std::initializer_list<int64_t> rest) {
    return Planned(field, DType::kFloat32, sizes.batch, rest);
  };
  std::vector<ReplyTensor> tensors;
  tensors.push_back(
      Planned(ReplyField::kOutput, sizes.output_dtype, sizes.batch, {sizes.q_length, layer.out_features}));
  if (sizes.attn_weights || sizes.intermediates) {
    tensors.push_back(float32(ReplyField::kAttnWeights, {layer.num_heads, sizes.q_length, sizes.kv_length}));
  }
  if (sizes.intermediates) {
    tensors.push_back(float32(ReplyField::kQuery, {sizes.q_length, layer.num_heads, layer.head_dim}));
    tensors.push_back(float32(ReplyField::kKey, {sizes.kv_length, layer.num_heads, layer.head_dim}));
    tensors.push_back(float32(ReplyField::kValue, {sizes.kv_length, layer.num_heads, layer.head_dim}));
    tensors.push_back(float32(ReplyField::kScores, {layer.num_heads, sizes.q_length, sizes.kv_length}));
    tensors.push_back(float32(ReplyField::kContext, {sizes.q_length, layer.num_heads, layer.head_dim}));
  }
  return tensors;
}

// As ByteCount, but a size 0 anywhere gives 0, also where the product of those before it passes int64.
std::optional<int64_t> Bytes(const ReplyTensor& tensor) {
  if (absl::c_linear_search(tensor.shape, 0)) return 0;
  return ByteCount(tensor.shape, tensor.dtype);
}

absl::Status TooLarge(absl::string_view bytes, int64_t max_message_bytes) {
  return absl::ResourceExhaustedError(absl::StrCat("reply: would take ", bytes,
                                                   " bytes, more than the server's limit of ", max_message_bytes,
                                                   " (--max-message-bytes)"));
}

v1::Tensor* MessageOf(ReplyField field, v1::AttendResponse* response) {
  switch (field) {
    case ReplyField::kOutput:
      return response->mutable_output();
    case ReplyField::kQuery:
      return response->mutable_intermediates()->mutable_query();
    case ReplyField::kKey:
      return response->mutable_intermediates()->mutable_key();
    case ReplyField::kValue:
      return response->mutable_intermediates()->mutable_value();
    case ReplyField::kScores:
      return response->mutable_intermediates()->mutable_scores();
    case ReplyField::kAttnWeights:
      return response->mutable_attn_weights();
    case ReplyField::kContext:
      return response->mutable_intermediates()->mutable_context();
  }
  return nullptr;
}

void PointAt(char* data, ReplyField field, AttentionCall* call) {
  // A std::string's bytes stand at a multiple of 8 at least, in the string or on the heap.
  auto* floats = reinterpret_cast<float*>(data);
  switch (field) {
    case ReplyField::kOutput:
      call->output = reinterpret_cast<std::byte*>(data);
      return;
    case ReplyField::kQuery:
      call->also.query = floats;
      return;
    case ReplyField::kKey:
      call->also.key = floats;
      return;
    case ReplyField::kValue:
      call->also.value = floats;
      return;
    case ReplyField::kScores:
      call->also.scores = floats;
      return;
    case ReplyField::kAttnWeights:
      call->also.attn_weights = floats;
      return;
    case ReplyField::kContext:
      call->also.context = floats;
      return;
  }
}

}  // namespace

absl::StatusOr<ReplyPlan> PlanReply(const ReplySizes& sizes, int64_t max_message_bytes) {
  ReplyPlan plan{.tensors = PlannedTensors(sizes)};
  int64_t message_bytes = kEnvelopeBytes;
  for (ReplyTensor& tensor : plan.tensors) {
    const std::optional<int64_t> bytes = Bytes(tensor);
    if (!bytes || __builtin_add_overflow(message_bytes, *bytes, &message_bytes)) {
      return TooLarge("more than 2^63", max_message_bytes);
    }
    tensor.bytes = *bytes;
  }
  if (message_bytes > max_message_bytes) return TooLarge(absl::StrCat(message_bytes), max_message_bytes);
  plan.bytes = message_bytes - kEnvelopeBytes;
  return plan;
}

void AllocateReply(const ReplyPlan& plan, v1::AttendResponse* response, AttentionCall* call) {
  for (const ReplyTensor& tensor : plan.tensors) {
    v1::Tensor* message = MessageOf(tensor.field, response);
    message->set_dtype(DTypeToProto(tensor.dtype));
    message->mutable_shape()->Add(tensor.shape.begin(), tensor.shape.end());
    message->mutable_data()->resize(tensor.bytes);
    PointAt(message->mutable_data()->data(), tensor.field, call);
  }
}

}  // namespace attention::server
