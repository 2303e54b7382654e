#include "server/batching/lanes.h"

#include <algorithm>
#include <cstddef>
#include <utility>

namespace attention::server {
namespace {

bool SameObject(const std::weak_ptr<const WeightSet>& a, const std::shared_ptr<const WeightSet>& b) {
  return !a.owner_before(b) && !b.owner_before(a);
}

// A task adds at least this to the served cost of its lane, so that tasks of no cost take turns too.
constexpr double kLeastCost = 1;

// Removes a task's cost from what its lane has queued. An empty lane has none, regardless of rounding.
void SubtractCost(double cost, Lane& lane) { lane.queued_cost = lane.tasks.empty() ? 0 : lane.queued_cost - cost; }

}  // namespace

void Lanes::Add(std::unique_ptr<Task>& task) {
  Lane& lane = LaneOf(*task);
  if (lane.tasks.size() == lane.tasks.capacity()) lane.tasks.reserve(2 * lane.tasks.size() + 1);
  if (lane.tasks.empty()) lane.served_cost = std::max(lane.served_cost, level_);
  ++requests_;
  tokens_ += task->call.tokens;
  lane.queued_cost += task->call.cost;
  const auto position = std::upper_bound(
      lane.tasks.begin(), lane.tasks.end(), task,
      [](const std::unique_ptr<Task>& a, const std::unique_ptr<Task>& b) { return a->priority > b->priority; });
  lane.tasks.insert(position, std::move(task));
}

Batch Lanes::Take(const BatchDecision& decision, absl::Time now) {
  Lane& lane = lanes_[*decision.lane];
  level_ = std::max(level_, lane.served_cost);
  Batch batch{lane.tasks.front()->weight_set, {}, decision.close_reason, now, lane.is_small};
  batch.tasks.reserve(decision.task_count);
  const auto begin = lane.tasks.begin();
  const auto end = begin + static_cast<std::ptrdiff_t>(decision.task_count);
  double cost = 0;
  for (auto task = begin; task != end; ++task) {
    cost += (*task)->call.cost;
    lane.served_cost += std::max(kLeastCost, (*task)->call.cost);
    tokens_ -= (*task)->call.tokens;
    batch.tasks.push_back(std::move(*task));
  }
  lane.tasks.erase(begin, end);
  SubtractCost(cost, lane);
  requests_ -= static_cast<int64_t>(decision.task_count);
  DropSettledLanes();
  return batch;
}

std::vector<DeadTask> Lanes::RemoveDead(absl::FunctionRef<absl::Status(const Task&)> check) {
  struct Found {
    Lane* lane;
    std::unique_ptr<Task>* task;
    absl::Status status;
  };
  std::vector<Found> found;
  for (Lane& lane : lanes_) {
    for (std::unique_ptr<Task>& task : lane.tasks) {
      if (absl::Status status = check(*task); !status.ok()) found.push_back({&lane, &task, std::move(status)});
    }
  }
  if (found.empty()) return {};
  std::vector<DeadTask> dead;
  dead.reserve(found.size());
  for (Found& entry : found) {
    --requests_;
    tokens_ -= (*entry.task)->call.tokens;
    entry.lane->queued_cost -= (*entry.task)->call.cost;
    dead.push_back({std::move(*entry.task), std::move(entry.status)});
  }
  for (Lane& lane : lanes_) {
    std::erase(lane.tasks, nullptr);
    SubtractCost(0, lane);
  }
  DropSettledLanes();
  return dead;
}

void Lanes::Reset() {
  lanes_.clear();
  level_ = 0;
}

double Lanes::CostBefore(const Task& task) const {
  const Lane* own = FindLane(task);
  const double of_own = own == nullptr ? 0 : own->queued_cost;
  double cost = of_own;
  for (const Lane& lane : lanes_) {
    if (&lane != own && lane.is_small == task.is_small) cost += std::min(lane.queued_cost, of_own + task.call.cost);
  }
  return cost;
}

const Lane* Lanes::FindLane(const Task& task) const {
  const auto found = std::find_if(lanes_.begin(), lanes_.end(), [&](const Lane& lane) {
    return lane.is_small == task.is_small && SameObject(lane.weight_set, task.weight_set);
  });
  return found == lanes_.end() ? nullptr : &*found;
}

Lane& Lanes::LaneOf(const Task& task) {
  if (const Lane* found = FindLane(task)) return lanes_[found - lanes_.data()];
  Lane& lane = lanes_.emplace_back();
  lane.weight_set = task.weight_set;
  lane.is_small = task.is_small;
  return lane;
}

// Drops empty lanes that need no memory: one at or below the level would start like a new lane, and a destroyed weight
// set gets no more tasks.
void Lanes::DropSettledLanes() {
  std::erase_if(lanes_, [&](const Lane& lane) {
    return lane.tasks.empty() && (lane.served_cost <= level_ || lane.weight_set.expired());
  });
}

}  // namespace attention::server
