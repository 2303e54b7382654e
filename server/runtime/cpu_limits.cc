#include "server/runtime/cpu_limits.h"

#include <sched.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <iterator>
#include <optional>
#include <thread>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"

namespace attention::server {
namespace {

std::string Content(const std::string& path) {
  std::ifstream file(path);
  return std::string(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
}

bool HasCpu(absl::string_view controllers) {
  return absl::c_linear_search(std::vector<absl::string_view>(absl::StrSplit(controllers, ',')), "cpu");
}

// The group of the process in a hierarchy of control groups, as /proc/self/cgroup has it: the only one of version 2, or
// the one of version 1 that controls the CPU.
struct Group {
  bool version_2 = false;
  std::string path;  // "/kubepods/pod1"
};

// Lines: "0::/kubepods/pod1" with version 2, "4:cpu,cpuacct:/docker/1234" with version 1.
std::vector<Group> Groups(const std::string& root) {
  std::vector<Group> groups;
  const std::string text = Content(absl::StrCat(root, "/proc/self/cgroup"));
  for (absl::string_view line : absl::StrSplit(text, '\n', absl::SkipEmpty())) {
    const std::vector<std::string> fields = absl::StrSplit(line, absl::MaxSplits(':', 2));
    if (fields.size() != 3) continue;
    const bool version_2 = fields[0] == "0" && fields[1].empty();
    if (version_2 || HasCpu(fields[1])) groups.push_back({version_2, fields[2]});
  }
  return groups;
}

// Where a hierarchy is mounted. In a container the mount often shows only a part of it: `group` is the path of the
// group at the mount point.
struct Mount {
  std::string point;
  std::string group;
};

// A line of /proc/self/mountinfo: "36 25 0:31 /docker/1234 /sys/fs/cgroup/cpu rw master:9 - cgroup cgroup rw,cpu".
std::optional<Mount> FindMount(const std::string& root, bool version_2) {
  const std::string text = Content(absl::StrCat(root, "/proc/self/mountinfo"));
  for (absl::string_view line : absl::StrSplit(text, '\n', absl::SkipEmpty())) {
    const std::vector<absl::string_view> halves = absl::StrSplit(line, absl::MaxSplits(" - ", 1));
    if (halves.size() != 2) continue;
    const std::vector<absl::string_view> place = absl::StrSplit(halves[0], ' ');
    const std::vector<absl::string_view> type = absl::StrSplit(halves[1], ' ');
    if (place.size() < 5 || type.size() < 3) continue;
    const bool matches = version_2 ? type[0] == "cgroup2" : type[0] == "cgroup" && HasCpu(type[2]);
    if (matches) return Mount{std::string(place[4]), std::string(place[3])};
  }
  return std::nullopt;
}

// The folder of the group below the mount point, "/pod1" or "". A path that the mount does not show has folders that do
// not exist, and only the folder of the mount point counts.
std::string FolderInMount(const std::string& path, const Mount& mount) {
  absl::string_view folder = path;
  if (mount.group != "/") absl::ConsumePrefix(&folder, mount.group);
  if (!absl::StartsWith(folder, "/"))
    folder = folder.empty() ? "" : path;  // "/docker/12" does not contain "/docker/123"
  return std::string(absl::StripSuffix(folder, "/"));
}

double Quotient(absl::string_view quota, absl::string_view period) {
  int64_t quota_us = 0;
  int64_t period_us = 0;
  if (!absl::SimpleAtoi(quota, &quota_us) || !absl::SimpleAtoi(period, &period_us)) return 0;
  if (quota_us <= 0 || period_us <= 0) return 0;
  return static_cast<double>(quota_us) / static_cast<double>(period_us);
}

// Takes the quota of a group's folder if it is the smallest so far. Files: "150000 100000" or "max 100000" with version
// 2; "150000" or "-1", and "100000", with version 1.
void TakeQuota(const std::string& root, const std::string& folder, bool version_2, CpuLimits& limits) {
  const std::string file = absl::StrCat(folder, version_2 ? "/cpu.max" : "/cpu.cfs_quota_us");
  std::string text = Content(absl::StrCat(root, file));
  if (!version_2) absl::StrAppend(&text, " ", Content(absl::StrCat(root, folder, "/cpu.cfs_period_us")));
  const std::vector<absl::string_view> parts = absl::StrSplit(text, absl::ByAnyChar(" \n"), absl::SkipEmpty());
  const double quota = parts.size() == 2 ? Quotient(parts[0], parts[1]) : 0;
  if (quota <= 0 || (limits.quota > 0 && limits.quota <= quota)) return;
  limits.quota = quota;
  limits.quota_file = file;
}

void TakeQuotas(const std::string& root, const Group& group, CpuLimits& limits) {
  const std::optional<Mount> mount = FindMount(root, group.version_2);
  if (!mount) return;
  for (std::string folder = FolderInMount(group.path, *mount);; folder.resize(folder.rfind('/'))) {
    TakeQuota(root, absl::StrCat(mount->point, folder), group.version_2, limits);
    if (folder.find('/') == std::string::npos) break;
  }
}

int AllowedCpus() {
  cpu_set_t cpus;
  if (sched_getaffinity(0, sizeof(cpus), &cpus) == 0) return CPU_COUNT(&cpus);
  return static_cast<int>(std::thread::hardware_concurrency());
}

}  // namespace

int CpuLimits::cpus() const {
  const double by_quota = quota > 0 ? std::ceil(quota) : affinity;
  return std::max(1, static_cast<int>(std::min<double>(affinity, by_quota)));
}

std::string CpuLimits::Describe() const {
  const std::string by_quota = quota > 0 ? absl::StrCat("quota ", quota, " (", quota_file, ")") : "no quota";
  return absl::StrCat(cpus(), cpus() == 1 ? " CPU: " : " CPUs: ", affinity, " by affinity, ", by_quota);
}

CpuLimits ReadCpuLimits(const std::string& root) {
  CpuLimits limits;
  limits.affinity = AllowedCpus();
  for (const Group& group : Groups(root)) TakeQuotas(root, group, limits);
  return limits;
}

}  // namespace attention::server
