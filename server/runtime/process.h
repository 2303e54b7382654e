#pragma once

#include "absl/strings/string_view.h"

// What the process may use of the machine: CPUs and memory.
namespace attention::server {

// CPUs that this process can use: those of its affinity mask (taskset, cpuset), limited by the CPU quota of its control
// group and of the parent groups (docker --cpus, Kubernetes limits). At least 1.
int UsableCpus();

// The CPUs of a quota, rounded up; 0 if it sets no limit. `cpu_max` is the content of a control group's cpu.max file:
// "150000 100000", microseconds of CPU time in each period, or "max 100000".
int QuotaCpus(absl::string_view cpu_max);

// Makes malloc keep freed memory for later requests. The first touch of a fresh page costs about ten times as much as
// copying one, and requests and replies of megabytes are allocated and freed all the time. Malloc keeps memory for each
// arena, so the number of arenas is limited to the CPUs; then the memory of the process soon stops growing. To be
// called when the process starts.
void RetainFreedMemory();

// Returns the retained memory to the kernel. To be called after an unload, which is rare and frees as much as the size
// of the checkpoint.
void ReleaseFreedMemory();

}  // namespace attention::server
