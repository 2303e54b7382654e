#pragma once

#include <cstdint>
#include <set>

#include "server/checkpoint/layouts/layers.h"
#include "server/weights/weight_set.h"

namespace attention::server {

// Sums the memory of weight sets in float32, counting each layer once.
class WeightSum {
 public:
  void Add(const WeightSet& weight_set) {
    if (counted_.insert(weight_set.layer.get()).second) bytes_ += Float32Bytes(weight_set.parameters);
  }
  int64_t bytes() const { return bytes_; }

 private:
  std::set<const Layer*> counted_;
  int64_t bytes_ = 0;
};

}  // namespace attention::server
