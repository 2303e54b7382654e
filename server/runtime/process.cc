#include "server/runtime/process.h"

#include <malloc.h>
#include <sys/resource.h>

#include <algorithm>
#include <limits>

#include "server/runtime/cpu_limits.h"

namespace attention::server {

int UsableCpus() { return ReadCpuLimits().cpus(); }

void RaiseDescriptorLimit() {
  rlimit limit = {};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

int64_t MaxDescriptors() {
  rlimit limit = {};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return 1024;
  return static_cast<int64_t>(std::min<rlim_t>(limit.rlim_cur, std::numeric_limits<int32_t>::max()));
}

void RetainFreedMemory() {
  mallopt(M_ARENA_MAX, UsableCpus());
  mallopt(M_MMAP_THRESHOLD, 32 << 20);  // glibc's maximum; larger blocks are mapped and unmapped each time
  mallopt(M_TRIM_THRESHOLD, std::numeric_limits<int>::max());
  mallopt(M_TOP_PAD, 64 << 20);
}

void ReleaseFreedMemory() { malloc_trim(0); }

}  // namespace attention::server
