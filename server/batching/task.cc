#include "server/batching/task.h"

#include "absl/strings/str_cat.h"

namespace attention::server {

absl::Status Liveness(const Task& task, absl::Time now) {
  // The deadline first: a transport whose deadline passes also reports the call as cancelled.
  if (task.deadline <= now) {
    return absl::DeadlineExceededError(absl::StrCat("deadline: passed ", absl::FormatDuration(now - task.deadline),
                                                    " ago, the request was not computed"));
  }
  if (task.cancelled && task.cancelled()) {
    return absl::CancelledError("the call was cancelled, the request was not computed");
  }
  return absl::OkStatus();
}

void EndUncomputed(std::unique_ptr<Task> task, const absl::Status& status, absl::Time now) {
  TaskReport report;
  report.queue_time = now - task->enqueue_time;
  task->done(status, report);
}

}  // namespace attention::server
