#pragma once

#include <cstdint>

// What the process may use of the machine: CPUs and memory.
namespace attention::server {

// CPUs that this process can use: ReadCpuLimits().cpus().
int UsableCpus();

// Raises the soft limit of open descriptors to the hard limit: systemd and shells leave the soft one at 1024, for
// programs that use select(). To be called when the process starts.
void RaiseDescriptorLimit();

// The soft limit of open descriptors.
int64_t MaxDescriptors();

// Makes malloc keep freed memory for later requests. The first touch of a fresh page costs about ten times as much as
// copying one, and requests and replies of megabytes are allocated and freed all the time. Malloc keeps memory for each
// arena, so the number of arenas is limited to the CPUs; then the memory of the process soon stops growing. To be
// called when the process starts.
void RetainFreedMemory();

// Returns the retained memory to the kernel. To be called after an unload, which is rare and frees as much as the size
// of the checkpoint.
void ReleaseFreedMemory();

}  // namespace attention::server
