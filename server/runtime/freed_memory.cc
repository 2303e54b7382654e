#include "server/runtime/freed_memory.h"

#include <malloc.h>

#include <limits>

#include "server/runtime/cpus.h"

namespace attention::server {

void KeepFreedMemory() {
  mallopt(M_ARENA_MAX, UsableCpus());
  mallopt(M_MMAP_THRESHOLD, 32 << 20);  // the most that glibc takes; larger blocks are mapped and unmapped each time
  mallopt(M_TRIM_THRESHOLD, std::numeric_limits<int>::max());
  mallopt(M_TOP_PAD, 64 << 20);
}

void GiveBackFreedMemory() { malloc_trim(0); }

}  // namespace attention::server
