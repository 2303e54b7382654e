#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "server/batching/batch_policy.h"
#include "server/batching/task.h"

namespace attention::server {

// A task that is not to be computed, and what to end it with.
struct DeadTask {
  std::unique_ptr<Task> task;
  absl::Status status;
};

// The waiting tasks, one lane for each weight set, and how much each was served. Not thread-safe: BatchQueue guards it.
//
// A weight set that starts to wait again enters level with the lane that was served last, however long it was away, so
// idle time earns no credit; what it was served beyond that it still has to wait for.
class Lanes {
 public:
  void Add(std::unique_ptr<Task> task);

  // Removes and returns the batch that DecideBatch chose from view(), and charges its lane. REQUIRES: decision.lane.
  Batch Take(const BatchDecision& decision, absl::Time now);

  // Removes and returns the tasks whose Liveness is not OK.
  std::vector<DeadTask> RemoveDead(absl::Time now);

  // Forgets what was served: for when a runner is idle, so nobody was kept waiting. REQUIRES: no task waits.
  void Reset();

  absl::Span<const Lane> view() const { return lanes_; }
  int64_t requests() const { return requests_; }
  int64_t tokens() const { return tokens_; }

 private:
  Lane& LaneOf(const std::shared_ptr<const WeightSet>& weight_set);
  void DropSettledLanes();

  std::vector<Lane> lanes_;
  int64_t level_ = 0;  // served_tokens of the lane that was taken last, before it was charged; never falls
  int64_t requests_ = 0;
  int64_t tokens_ = 0;
};

}  // namespace attention::server
