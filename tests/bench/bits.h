#pragma once

#include <map>
#include <memory>

#include "absl/status/status.h"
#include "server/engine/engine.h"
#include "tests/bench/workload.h"

namespace attention::bench {

// Indexed by number of threads.
using Engines = std::map<int, std::unique_ptr<server::Engine>>;

// Checks that the output of every call has the same bits alone and in a batch after another call, on every engine.
// Returns INTERNAL with the first difference. `quick` skips computing calls alone on more than one thread. As a side
// effect every engine has its memory and primitives for the workload. REQUIRES: an engine with 1 thread.
absl::Status CheckBits(Workload& workload, server::DType compute_dtype, const Engines& engines, bool quick);

}  // namespace attention::bench
