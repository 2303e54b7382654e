#include "server/runtime/memory_limit.h"

#include <algorithm>
#include <cstring>
#include <fstream>
#include <iterator>
#include <limits>
#include <string>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"

namespace attention::server {
namespace {

std::string Content(const std::string& path) {
  std::ifstream file(path);
  return std::string(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
}

// The groups of this process that limit memory, as folders below the root of their hierarchy: "/kubepods/pod1" for the
// lines "0::/kubepods/pod1" (version 2) and "4:memory:/kubepods/pod1" (version 1).
std::vector<std::string> MemoryGroups(const std::string& root) {
  std::vector<std::string> groups;
  const std::string content = Content(root + "/proc/self/cgroup");
  for (const absl::string_view line : absl::StrSplit(content, '\n')) {
    const std::vector<absl::string_view> parts = absl::StrSplit(line, absl::MaxSplits(':', 2));
    if (parts.size() != 3 || !absl::StartsWith(parts[2], "/")) continue;
    const std::vector<absl::string_view> controllers = absl::StrSplit(parts[1], ',');
    if (parts[0] != "0" && !absl::c_linear_search(controllers, "memory")) continue;
    groups.emplace_back(parts[2] == "/" ? "" : parts[2]);
  }
  groups.emplace_back();
  return groups;
}

// The number at the start of a text; the largest one if there is none, as in "max".
int64_t LimitIn(absl::string_view text) {
  int64_t limit = 0;
  text = absl::StripAsciiWhitespace(text);
  text = text.substr(0, text.find_first_not_of("0123456789"));
  return absl::SimpleAtoi(text, &limit) ? limit : std::numeric_limits<int64_t>::max();
}

int64_t MachineMemoryBytes(const std::string& root) {
  const std::string content = Content(root + "/proc/meminfo");
  const size_t at = content.find("MemTotal:");
  if (at == std::string::npos) return std::numeric_limits<int64_t>::max();
  const int64_t kib = LimitIn(absl::string_view(content).substr(at + std::strlen("MemTotal:")));
  return kib > std::numeric_limits<int64_t>::max() / 1024 ? kib : kib * 1024;
}

}  // namespace

int64_t MemoryLimitBytes(const std::string& root) {
  const std::string mount = root + "/sys/fs/cgroup";
  int64_t limit = MachineMemoryBytes(root);
  for (std::string group : MemoryGroups(root)) {
    while (true) {
      for (const std::string& file :
           {absl::StrCat(mount, group, "/memory.max"), absl::StrCat(mount, "/memory", group, "/memory.limit_in_bytes"),
            absl::StrCat(mount, group, "/memory.limit_in_bytes")}) {
        limit = std::min(limit, LimitIn(Content(file)));
      }
      if (group.empty()) break;
      group.resize(group.rfind('/'));
    }
  }
  return limit;
}

}  // namespace attention::server
