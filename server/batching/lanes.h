#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "server/batching/batch_policy.h"
#include "server/batching/task.h"

namespace attention::server {

// A task that will not be computed, and the status to end it with.
struct DeadTask {
  std::unique_ptr<Task> task;
  absl::Status status;
};

// The queued tasks, with two lanes for each weight set, and how much each lane was served. Not thread-safe: BatchQueue
// guards it with its lock.
//
// A lane without queued tasks earns no credit for idle time: when it gets tasks again, it starts level with the lane
// that was served last. If it was already served more than that, it keeps its higher count and waits.
class Lanes {
 public:
  // Takes the task. If memory runs out, throws std::bad_alloc and changes nothing; so do the methods below.
  void Add(std::unique_ptr<Task>& task);

  // Removes and returns the batch that DecideBatch chose from view(), and adds its cost to the lane's.
  // REQUIRES: decision.lane is set.
  Batch Take(const BatchDecision& decision, absl::Time now);

  // Removes and returns the tasks for which `check` is not OK.
  std::vector<DeadTask> RemoveDead(absl::FunctionRef<absl::Status(const Task&)> check);

  // Forgets all served cost. Called when a runner is idle, because then no lane had to wait for another.
  // REQUIRES: no task is queued.
  void Reset();

  absl::Span<const Lane> view() const { return lanes_; }
  int64_t requests() const { return requests_; }
  int64_t tokens() const { return tokens_; }

  // An estimate of the queued cost that is computed before a task that is added now: all of its own lane, and as much
  // of each other lane of its kind.
  double CostBefore(const Task& task) const;

 private:
  Lane& LaneOf(const Task& task);
  const Lane* FindLane(const Task& task) const;
  void DropSettledLanes();

  std::vector<Lane> lanes_;
  double level_ = 0;  // served_cost of the lane that was taken last, before its batch was added; never decreases
  int64_t requests_ = 0;
  int64_t tokens_ = 0;
};

}  // namespace attention::server
