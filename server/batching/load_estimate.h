#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/time/time.h"

namespace attention::server {

// How long queued work will take, learned from the batches that were computed. One for the small tasks and one for the
// others, because a unit of cost takes longer in small tasks. Not thread-safe: BatchQueue guards it with its lock.
class LoadEstimate {
 public:
  LoadEstimate() { running_.reserve(kMostRunners); }

  // A batch of this cost is taken to be computed. Returns its id for Finished.
  int64_t Started(double cost, absl::Time now);

  // The batch has ended, after computing tasks of this cost. Batches that take longer count for more.
  void Finished(int64_t id, double computed_cost, absl::Time now);

  // How long `cost` takes once it is its turn. Zero until a batch has been computed.
  absl::Duration TimeFor(double cost) const { return absl::Seconds(cost * seconds_per_cost_); }

  // How long the batches that are being computed still take.
  absl::Duration Remaining(absl::Time now) const;

  bool idle() const { return running_.empty(); }

 private:
  static constexpr size_t kMostRunners = 1024;

  struct Running {
    int64_t id = 0;
    double cost = 0;
    absl::Time start;
  };

  double seconds_per_cost_ = 0;
  int64_t last_id_ = 0;
  std::vector<Running> running_;
};

}  // namespace attention::server
