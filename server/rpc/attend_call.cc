#include "server/rpc/attend_call.h"

#include <spdlog/spdlog.h>

#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/engine/engine.h"
#include "server/observability/logging.h"
#include "server/rpc/proto_conversion.h"
#include "server/rpc/reply_plan.h"
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
  EmptyRowCounter empty_rows;
};

void EndTask(TaskState& state, const absl::Status& status, const TaskReport& report) {
  if (!status.ok()) return End(state.call, status, report);
  End(state.call, ReportEmptyRows(state.empty_rows, state.empty_row_rule, state.call.response), report);
}

// Makes the task of a validated request. Takes ownership of `call`, which must be finished exactly once; so all memory
// is allocated before `call` is moved, and nothing can throw afterwards.
std::unique_ptr<Task> MakeTask(AttendCall& call, WeightSetPtr weight_set, CheckedRequest checked) {
  auto task = std::make_unique<Task>();
  auto state = std::make_unique<TaskState>();
  task->weight_set = std::move(weight_set);
  task->call = std::move(checked.call);
  task->bytes = checked.request_bytes + checked.reply.bytes;
  task->priority = call.request->priority();
  task->deadline = call.deadline;
  task->cancelled = std::move(call.cancelled);
  task->call.empty_rows = &state->empty_rows;
  state->call = std::move(call);
  state->empty_row_rule = task->call.options.empty_rows;
  task->done = [state = std::move(state)](const absl::Status& status, const TaskReport& report) {
    EndTask(*state, status, report);
  };
  return task;
}

// A message within its size limit may need more memory to compute than the machine has: a request larger than
// --max-batch-tokens runs alone, and a layer can project short input rows into long ones.
absl::Status CheckWorkingMemory(const AttendContext& context, bool projected, const CheckedRequest& checked) {
  if (checked.nothing_to_compute()) return absl::OkStatus();
  const int64_t bytes = WorkingBytes(checked.call, projected, context.num_threads);
  if (bytes <= context.max_inflight_bytes) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat("request: expected at most ", context.max_inflight_bytes,
                                                   " bytes of working memory (--max-inflight-bytes), got ", bytes));
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
  auto checked = CheckRequest(request, layer == nullptr ? nullptr : &layer->shape(), context.max_message_bytes);
  if (!checked.ok()) return checked.status();
  if (auto status = CheckWorkingMemory(context, layer != nullptr, *checked); !status.ok()) return status;

  call.response->set_weight_set((*weight_set)->name);
  call.response->set_version((*weight_set)->version);
  call.response->set_request_id(request.request_id());
  AllocateReply(checked->reply, call.response, &checked->call);
  if (checked->nothing_to_compute()) return nullptr;
  return MakeTask(call, *std::move(weight_set), *std::move(checked));
}

}  // namespace

void StartAttend(const AttendContext& context, AttendCall call) {
  std::unique_ptr<Task> task;
  absl::Status status = CatchExceptions("preparing a request", [&] {
    auto prepared = Prepare(context, call);
    if (!prepared.ok()) return prepared.status();
    task = *std::move(prepared);
    return absl::OkStatus();
  });
  if (task == nullptr) return End(call, status, TaskReport());
  status = context.queue->Push(task);
  if (!status.ok()) task->done(status, TaskReport());
}

}  // namespace attention::server
