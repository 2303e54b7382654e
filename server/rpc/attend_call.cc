#include "server/rpc/attend_call.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/engine/call_cost.h"
#include "server/observability/logging.h"
#include "server/rpc/proto_conversion.h"
#include "server/rpc/reply_plan.h"
#include "server/rpc/reply_range.h"
#include "server/rpc/validation/request_validation.h"
#include "server/runtime/catch_exceptions.h"

namespace attention::server {
namespace {

void FillTiming(const TaskReport& report, v1::Timing* timing) {
  timing->set_queue_time_ns(absl::ToInt64Nanoseconds(report.queue_time));
  timing->set_compute_time_ns(absl::ToInt64Nanoseconds(report.compute_time));
  timing->set_batch_requests(static_cast<int32_t>(report.batch_requests));
  timing->set_batch_tokens(report.batch_tokens);
  timing->set_batch_close_reason(BatchCloseReasonToProto(report.batch_close_reason));
}

void LogEnd(const v1::AttendRequest& request, const absl::Status& status, const TaskReport& report) {
  if (!spdlog::should_log(spdlog::level::debug)) return;
  spdlog::debug("attend request_id=\"{}\" weight_set=\"{}\" status={} queue_us={} compute_us={} batch_requests={}{}",
                ForLog(request.request_id()), ForLog(request.weight_set()), absl::StatusCodeToString(status.code()),
                absl::ToInt64Microseconds(report.queue_time), absl::ToInt64Microseconds(report.compute_time),
                report.batch_requests, status.ok() ? "" : " message=\"" + ForLog(status.message()) + "\"");
}

void End(AttendCall& call, const absl::Status& status, const TaskReport& report) {
  if (status.ok() && report.batch_requests > 0) FillTiming(report, call.response->mutable_timing());
  LogEnd(*call.request, status, report);
  call.done(status);
}

// What a task keeps of its request until it ends.
struct TaskState {
  AttendCall call;
  EmptyRowRule empty_row_rule = EmptyRowRule::kUniform;
  bool layer_is_finite = true;
  EmptyRowCounter empty_rows;
  NonFiniteTensors non_finite;
};

absl::Status CheckReply(const TaskState& state) {
  auto status = ReportEmptyRows(state.empty_rows, state.empty_row_rule, state.call.response);
  if (!status.ok()) return status;
  return CheckReplyRange(state.non_finite, *state.call.request, state.layer_is_finite, *state.call.response);
}

void EndTask(TaskState& state, const absl::Status& status, const TaskReport& report) {
  if (!status.ok()) return End(state.call, status, report);
  End(state.call, CatchExceptions("completing a reply", [&] { return CheckReply(state); }), report);
}

// Makes the task of a validated request. Takes ownership of `call`, which must be finished exactly once; so all memory
// is allocated before `call` is moved, and nothing can throw afterwards.
std::unique_ptr<Task> MakeTask(AttendCall& call, WeightSetPtr weight_set, CheckedRequest checked) {
  auto task = std::make_unique<Task>();
  auto state = std::make_unique<TaskState>();
  state->layer_is_finite = weight_set->layer == nullptr || weight_set->layer->is_finite();
  task->weight_set = std::move(weight_set);
  task->call = std::move(checked.call);
  task->priority = call.request->priority();
  task->call.empty_rows = &state->empty_rows;
  task->call.non_finite = &state->non_finite;
  state->call = std::move(call);
  state->empty_row_rule = task->call.options.empty_rows;
  task->done = [state = std::move(state)](const absl::Status& status, const TaskReport& report) {
    EndTask(*state, status, report);
  };
  return task;
}

// Working memory that every call may use. The engine keeps it, so only what exceeds it is reserved for a call.
constexpr int64_t kSharedWorkingBytes = int64_t{16} << 20;

bool ReturnsScores(const ReplyPlan& reply) {
  return std::any_of(reply.tensors.begin(), reply.tensors.end(), [](const ReplyTensor& tensor) {
    switch (tensor.field) {
      case ReplyField::kOutput:
      case ReplyField::kLogSumExp:
      case ReplyField::kQuery:
      case ReplyField::kKey:
      case ReplyField::kValue:
      case ReplyField::kContext:
        return false;
      default:
        return true;
    }
  });
}

// Sets the cost of a call and checks its limit.
absl::Status CheckCost(const AttendContext& context, const LayerShape* layer, CheckedRequest& checked) {
  checked.call.cost = CallCost(checked.call, layer, ReturnsScores(checked.reply));
  if (context.max_request_cost == 0 || checked.call.cost <= context.max_request_cost) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat("request: expected a cost of at most ", context.max_request_cost,
                                                   " multiply-adds (--max-request-cost), got ", checked.call.cost));
}

// Reserves the memory of the reply and of the computation: a message within its size limit may need more memory to
// compute than the machine has, because a layer can project short input rows into long ones.
absl::Status ReserveMemory(const AttendContext& context, bool projected, const CheckedRequest& checked,
                           Ticket& ticket) {
  const int64_t working = WorkingBytes(checked.call, projected, context.num_threads);
  const int64_t limit = context.admission->max_bytes();
  if (working > limit) {
    return absl::ResourceExhaustedError(absl::StrCat("request: expected at most ", limit,
                                                     " bytes of working memory (--max-inflight-bytes), got ", working));
  }
  // What validation has allocated for each sequence, beyond what the size of the message told.
  const int64_t request = std::max<int64_t>(0, checked.request_bytes - ticket.bytes());
  return ticket.Reserve(request + checked.reply.bytes + std::max<int64_t>(0, working - kSharedWorkingBytes));
}

absl::StatusOr<WeightSetPtr> FindWeightSet(const AttendContext& context, const v1::AttendRequest& request) {
  if (request.weight_set().empty()) return context.no_weight_set;
  return context.registry->Find(request.weight_set(), request.version(), request.alias());
}

// Returns null if the response is already complete, because there is nothing to compute. Takes `call` only if it
// returns a task.
absl::StatusOr<std::unique_ptr<Task>> Prepare(const AttendContext& context, AttendCall& call) {
  const v1::AttendRequest& request = *call.request;
  if (auto status = CheckNames(request); !status.ok()) return status;
  auto weight_set = FindWeightSet(context, request);
  if (!weight_set.ok()) return weight_set.status();
  const Layer* layer = (*weight_set)->layer.get();
  const LayerShape* shape = layer == nullptr ? nullptr : &layer->shape();
  auto checked = CheckRequest(request, shape, context.max_message_bytes);
  if (!checked.ok()) return checked.status();
  if (!checked->nothing_to_compute()) {
    if (auto status = CheckCost(context, shape, *checked); !status.ok()) return status;
    if (auto status = ReserveMemory(context, layer != nullptr, *checked, *call.ticket); !status.ok()) return status;
  }

  call.response->set_weight_set((*weight_set)->name);
  call.response->set_version((*weight_set)->version);
  call.response->set_request_id(request.request_id());
  AllocateReply(checked->reply, call.response, &checked->call);
  if (checked->nothing_to_compute()) return nullptr;
  checked->call.stop = call.stop;
  return MakeTask(call, *std::move(weight_set), *std::move(checked));
}

}  // namespace

int64_t RequestBytes(const v1::AttendRequest& request) {
  const v1::Mask& mask = request.mask();
  const int64_t lengths = mask.kv_lengths_size() + mask.q_lengths_size();
  const auto ids = static_cast<int64_t>(mask.q_segment_ids().data().size() + mask.kv_segment_ids().data().size());
  return static_cast<int64_t>(request.SpaceUsedLong()) + lengths * static_cast<int64_t>(sizeof(SequenceLimits)) +
         ids * 2;
}

void StartAttend(const AttendContext& context, AttendCall call) {
  std::unique_ptr<Task> task;
  absl::Status status = CatchExceptions("preparing a request", [&] {
    auto prepared = Prepare(context, call);
    if (!prepared.ok()) return prepared.status();
    task = *std::move(prepared);
    return absl::OkStatus();
  });
  if (task == nullptr) return End(call, status, TaskReport());
  status = CatchExceptions("queueing a request", [&] { return context.queue->Push(task); });
  if (!status.ok()) task->done(status, TaskReport());
}

}  // namespace attention::server
