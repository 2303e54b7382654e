#pragma once

#include "absl/strings/string_view.h"

namespace attention::server {

// CPUs that this process can keep busy: those that its affinity allows (taskset, cpuset), but no more than the quota of
// its control group and of those around it pays for (docker --cpus, Kubernetes limits). At least 1.
int UsableCpus();

// CPUs that a quota pays for, rounded up; 0 if it sets no bound. `cpu_max` is the content of a control group's cpu.max:
// "150000 100000", microseconds of time in each period, or "max 100000".
int QuotaCpus(absl::string_view cpu_max);

}  // namespace attention::server
