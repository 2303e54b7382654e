#include "server/rpc/reply_plan.h"

#include <initializer_list>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "server/checkpoint/field_error.h"
#include "server/rpc/proto_conversion.h"

namespace attention::server {
namespace {

// An upper bound of the bytes of a reply message without the elements: thirteen shapes of at most nine axes, two names
// of at most 128 bytes, the timing, tags and lengths.
constexpr int64_t kEnvelopeBytes = 2048;

// The tensor message of a field, and the function that passes the address of its bytes to the engine.
struct FieldAccess {
  v1::Tensor* (*message)(v1::AttendResponse& response);
  void (*set_output)(AttentionCall& call, char* data);
};

// The bytes of a std::string are aligned to at least 8, in the object or on the heap: enough for float and int32_t.
template <auto ExtraOutputs::*member>
void SetOutput(AttentionCall& call, char* data) {
  call.extra_outputs.*member = reinterpret_cast<std::remove_reference_t<decltype(call.extra_outputs.*member)>>(data);
}

using Reply = v1::AttendResponse;

// In the order of ReplyField.
constexpr FieldAccess kFields[] = {
    {[](Reply& r) { return r.mutable_output(); },
     [](AttentionCall& call, char* data) { call.output.data = reinterpret_cast<std::byte*>(data); }},
    {[](Reply& r) { return r.mutable_attn_weights(); }, SetOutput<&ExtraOutputs::attn_weights>},
    {[](Reply& r) { return r.mutable_mean_attn_weights(); }, SetOutput<&ExtraOutputs::mean_attn_weights>},
    {[](Reply& r) { return r.mutable_top_keys()->mutable_keys(); }, SetOutput<&ExtraOutputs::top_keys>},
    {[](Reply& r) { return r.mutable_top_keys()->mutable_weights(); }, SetOutput<&ExtraOutputs::top_weights>},
    {[](Reply& r) { return r.mutable_log_sum_exp(); }, SetOutput<&ExtraOutputs::log_sum_exp>},
    {[](Reply& r) { return r.mutable_intermediates()->mutable_query(); }, SetOutput<&ExtraOutputs::query>},
    {[](Reply& r) { return r.mutable_intermediates()->mutable_key(); }, SetOutput<&ExtraOutputs::key>},
    {[](Reply& r) { return r.mutable_intermediates()->mutable_value(); }, SetOutput<&ExtraOutputs::value>},
    {[](Reply& r) { return r.mutable_intermediates()->mutable_scores(); }, SetOutput<&ExtraOutputs::scores>},
    {[](Reply& r) { return r.mutable_intermediates()->mutable_capped_scores(); },
     SetOutput<&ExtraOutputs::capped_scores>},
    {[](Reply& r) { return r.mutable_intermediates()->mutable_masked_scores(); },
     SetOutput<&ExtraOutputs::masked_scores>},
    {[](Reply& r) { return r.mutable_intermediates()->mutable_context(); }, SetOutput<&ExtraOutputs::context>},
};

// Collects the tensors of a reply, and puts the batch axes before the axes of each.
class Planner {
 public:
  explicit Planner(const ReplySizes& sizes) : sizes_(sizes) {}

  void Add(ReplyField field, DType dtype, absl::Span<const int64_t> axes) {
    ReplyTensor tensor{.field = field, .dtype = dtype, .shape = Shape(sizes_.batch.begin(), sizes_.batch.end())};
    tensor.shape.insert(tensor.shape.end(), axes.begin(), axes.end());
    tensors_.push_back(std::move(tensor));
  }
  void Add(ReplyField field, std::initializer_list<int64_t> axes) { Add(field, DType::kFloat32, axes); }

  // [batch…, num_heads, q_length, kv_length]
  void AddScores(ReplyField field) { Add(field, {sizes_.heads.num_heads, sizes_.q_length, sizes_.kv_length}); }

  void AddIntermediates(bool capped) {
    const HeadShape& heads = sizes_.heads;
    if (sizes_.projected) {
      Add(ReplyField::kQuery, {sizes_.q_length, heads.num_heads, heads.head_dim});
      Add(ReplyField::kKey, {sizes_.kv_length, heads.num_kv_heads, heads.head_dim});
      Add(ReplyField::kValue, {sizes_.kv_length, heads.num_kv_heads, heads.value_head_dim});
    }
    AddScores(ReplyField::kScores);
    if (capped) AddScores(ReplyField::kCappedScores);
    AddScores(ReplyField::kMaskedScores);
    Add(ReplyField::kContext, {sizes_.q_length, heads.num_heads, heads.value_head_dim});
  }

  std::vector<ReplyTensor> Take() { return std::move(tensors_); }

 private:
  const ReplySizes& sizes_;
  std::vector<ReplyTensor> tensors_;
};

std::vector<ReplyTensor> PlannedTensors(const ReplySizes& sizes, const v1::AttendOptions& options) {
  Planner planner(sizes);
  const int64_t num_heads = sizes.heads.num_heads, q_length = sizes.q_length;
  planner.Add(ReplyField::kOutput, sizes.output_dtype, sizes.output);
  if (options.return_attn_weights() || options.return_intermediates()) planner.AddScores(ReplyField::kAttnWeights);
  if (options.return_mean_attn_weights()) planner.Add(ReplyField::kMeanAttnWeights, {q_length, sizes.kv_length});
  if (options.top_k() > 0) {
    planner.Add(ReplyField::kTopKeys, DType::kInt32, {num_heads, q_length, options.top_k()});
    planner.Add(ReplyField::kTopWeights, {num_heads, q_length, options.top_k()});
  }
  if (options.return_log_sum_exp()) planner.Add(ReplyField::kLogSumExp, {num_heads, q_length});
  if (options.return_intermediates()) planner.AddIntermediates(options.has_softcap());
  return planner.Take();
}

// Like ByteCount, but 0 if any size is 0, even if the product of the others exceeds int64.
std::optional<int64_t> Bytes(const ReplyTensor& tensor) {
  if (absl::c_linear_search(tensor.shape, 0)) return 0;
  return ByteCount(tensor.shape, tensor.dtype);
}

absl::Status TooLarge(absl::string_view bytes, int64_t max_message_bytes) {
  return absl::ResourceExhaustedError(
      absl::StrCat("reply: expected at most ", max_message_bytes, " bytes (--max-message-bytes), got ", bytes));
}

std::string IndicesText(const EmptyRowCounter& rows) {
  return absl::StrJoin(rows.first(), ", ", [](std::string* out, const EmptyRowCounter::Index& row) {
    absl::StrAppend(out, "[sequence ", row[0], ", head ", row[1], ", query ", row[2], "]");
  });
}

}  // namespace

absl::StatusOr<ReplyPlan> PlanReply(const ReplySizes& sizes, const v1::AttendOptions& options,
                                    int64_t max_message_bytes) {
  ReplyPlan plan{.tensors = PlannedTensors(sizes, options)};
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
    const FieldAccess& field = kFields[static_cast<size_t>(tensor.field)];
    v1::Tensor* message = field.message(*response);
    message->set_dtype(DTypeToProto(tensor.dtype));
    message->mutable_shape()->Add(tensor.shape.begin(), tensor.shape.end());
    message->mutable_data()->resize(tensor.bytes);
    field.set_output(*call, message->mutable_data()->data());
  }
}

absl::Status ReportEmptyRows(const EmptyRowCounter& rows, EmptyRowRule rule, v1::AttendResponse* response) {
  const int64_t count = rows.count();
  if (count == 0 || rule != EmptyRowRule::kError) {
    response->set_empty_rows(count);
    return absl::OkStatus();
  }
  return FieldError(
      "mask", "a visible key for every query row because options.empty_rows is ERROR",
      absl::StrCat(count, count == 1 ? " row without one at " : " rows without one, the first at ", IndicesText(rows)));
}

}  // namespace attention::server
