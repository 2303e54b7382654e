#include "server/runtime/process.h"

#include <malloc.h>
#include <sched.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <limits>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace attention::server {
namespace {

// Larger than any real quota.
constexpr int64_t kMaxCpus = 1 << 20;

std::string Content(const std::string& path) {
  std::ifstream file(path);
  return std::string(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
}

// Returns "/kubepods/pod1" for the line "0::/kubepods/pod1", which is the only line with control groups version 2.
std::string ControlGroup() {
  for (absl::string_view line : absl::StrSplit(Content("/proc/self/cgroup"), '\n')) {
    if (absl::StartsWith(line, "0::/")) return std::string(line.substr(3));
  }
  return "/";
}

int AllowedCpus() {
  cpu_set_t cpus;
  if (sched_getaffinity(0, sizeof(cpus), &cpus) == 0) return CPU_COUNT(&cpus);
  return static_cast<int>(std::thread::hardware_concurrency());
}

}  // namespace

int UsableCpus() {
  int cpus = AllowedCpus();
  for (std::string group = ControlGroup();; group.resize(group.rfind('/'))) {
    const int quota = QuotaCpus(Content(absl::StrCat("/sys/fs/cgroup", group, "/cpu.max")));
    if (quota > 0) cpus = std::min(cpus, quota);
    if (group.find('/') == std::string::npos) break;
  }
  return std::max(cpus, 1);
}

int QuotaCpus(absl::string_view cpu_max) {
  const std::vector<absl::string_view> parts = absl::StrSplit(cpu_max, absl::ByAnyChar(" \n"), absl::SkipEmpty());
  int64_t quota = 0;
  int64_t period = 0;
  if (parts.size() != 2 || !absl::SimpleAtoi(parts[0], &quota) || !absl::SimpleAtoi(parts[1], &period)) return 0;
  if (quota <= 0 || period <= 0) return 0;
  return static_cast<int>(std::min((quota - 1) / period + 1, kMaxCpus));
}

void RetainFreedMemory() {
  mallopt(M_ARENA_MAX, UsableCpus());
  mallopt(M_MMAP_THRESHOLD, 32 << 20);  // glibc's maximum; larger blocks are mapped and unmapped each time
  mallopt(M_TRIM_THRESHOLD, std::numeric_limits<int>::max());
  mallopt(M_TOP_PAD, 64 << 20);
}

void ReleaseFreedMemory() { malloc_trim(0); }

}  // namespace attention::server
