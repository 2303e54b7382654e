#pragma once

#include <cstdint>
#include <string>

namespace attention::server {

// Memory that the process may use, in bytes: that of the machine, limited by its control group (version 1 or 2) and the
// parent groups. In a container the own group is the root of /sys/fs/cgroup, regardless of its name in
// /proc/self/cgroup. The largest number if nothing can be read. `root`: the folder that contains proc and sys.
int64_t MemoryLimitBytes(const std::string& root = "");

}  // namespace attention::server
