#pragma once

#include <map>
#include <memory>

#include "absl/status/status.h"
#include "server/engine/engine.h"
#include "tests/bench/workload.h"

namespace attention::bench {

// By number of threads.
using Engines = std::map<int, std::unique_ptr<server::Engine>>;

// INTERNAL, with the place, unless every call of the workload has the same bits alone and behind another request, on
// all of the engines. `quick` leaves out what is alone on more than one thread. Afterwards every engine has computed
// the batch, so that its memory and primitives are there. REQUIRES: an engine with 1 thread.
absl::Status CheckBits(Workload& workload, server::DType compute_dtype, const Engines& engines, bool quick);

}  // namespace attention::bench
