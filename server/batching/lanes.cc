#include "server/batching/lanes.h"

#include <algorithm>
#include <cstddef>
#include <utility>

namespace attention::server {
namespace {

bool SameObject(const std::weak_ptr<const WeightSet>& a, const std::shared_ptr<const WeightSet>& b) {
  return !a.owner_before(b) && !b.owner_before(a);
}

}  // namespace

void Lanes::Add(std::unique_ptr<Task> task) {
  Lane& lane = LaneOf(task->weight_set);
  if (lane.tasks.empty()) lane.served_tokens = std::max(lane.served_tokens, level_);
  ++requests_;
  tokens_ += task->call.tokens;
  const auto position = std::upper_bound(
      lane.tasks.begin(), lane.tasks.end(), task,
      [](const std::unique_ptr<Task>& a, const std::unique_ptr<Task>& b) { return a->priority > b->priority; });
  lane.tasks.insert(position, std::move(task));
}

Batch Lanes::Take(const BatchDecision& decision, absl::Time now) {
  Lane& lane = lanes_[*decision.lane];
  level_ = std::max(level_, lane.served_tokens);
  Batch batch{lane.tasks.front()->weight_set, {}, decision.close_reason, now};
  batch.tasks.reserve(decision.task_count);
  const auto begin = lane.tasks.begin();
  const auto end = begin + static_cast<std::ptrdiff_t>(decision.task_count);
  for (auto task = begin; task != end; ++task) {
    lane.served_tokens += ServedTokens(**task);
    tokens_ -= (*task)->call.tokens;
    batch.tasks.push_back(std::move(*task));
  }
  lane.tasks.erase(begin, end);
  requests_ -= static_cast<int64_t>(decision.task_count);
  DropSettledLanes();
  return batch;
}

std::vector<DeadTask> Lanes::RemoveDead(absl::Time now) {
  std::vector<DeadTask> dead;
  for (Lane& lane : lanes_) {
    std::erase_if(lane.tasks, [&](std::unique_ptr<Task>& task) {
      absl::Status status = CheckAlive(*task, now);
      if (status.ok()) return false;
      --requests_;
      tokens_ -= task->call.tokens;
      dead.push_back({std::move(task), std::move(status)});
      return true;
    });
  }
  if (!dead.empty()) DropSettledLanes();
  return dead;
}

void Lanes::Reset() {
  lanes_.clear();
  level_ = 0;
}

Lane& Lanes::LaneOf(const std::shared_ptr<const WeightSet>& weight_set) {
  const auto found = std::find_if(lanes_.begin(), lanes_.end(),
                                  [&](const Lane& lane) { return SameObject(lane.weight_set, weight_set); });
  if (found != lanes_.end()) return *found;
  Lane& lane = lanes_.emplace_back();
  lane.weight_set = weight_set;
  return lane;
}

// Drops empty lanes that need no memory: one at or below the level would start like a new lane, and a destroyed weight
// set gets no more tasks.
void Lanes::DropSettledLanes() {
  std::erase_if(lanes_, [&](const Lane& lane) {
    return lane.tasks.empty() && (lane.served_tokens <= level_ || lane.weight_set.expired());
  });
}

}  // namespace attention::server
