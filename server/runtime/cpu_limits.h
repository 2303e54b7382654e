#pragma once

#include <string>

namespace attention::server {

// The CPUs that the process may use, and why.
struct CpuLimits {
  // CPUs of the affinity mask (taskset, cpuset).
  int affinity = 1;

  // CPUs of the smallest quota of its control group and the parent groups (docker --cpus, Kubernetes limits), for
  // instance 0.5. 0: no quota.
  double quota = 0;

  // The file of the quota. Empty without one.
  std::string quota_file;

  // The smaller one of both, rounded up. At least 1.
  int cpus() const;

  // For the log: "2 CPUs: 8 by affinity, quota 1.5 (/sys/fs/cgroup/cpu.max)".
  std::string Describe() const;
};

// Reads the limits of this process from the control groups of version 1 and 2. `root` is prepended to the paths below
// /proc and /sys, for tests.
CpuLimits ReadCpuLimits(const std::string& root = "");

}  // namespace attention::server
