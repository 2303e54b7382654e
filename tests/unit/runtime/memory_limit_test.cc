#include "server/runtime/memory_limit.h"

#include <gtest/gtest.h>

#include <limits>
#include <map>
#include <string>
#include <vector>

#include "tests/testing/files/temporary_folder.h"

namespace attention::server {
namespace {

struct MemoryCase {
  std::string name;
  std::map<std::string, std::string> files;
  int64_t expected = 0;
};

TEST(MemoryLimitTest, IsThatOfTheControlGroup) {
  const std::string meminfo = "MemTotal:        1000 kB\nMemFree:          10 kB\n";
  constexpr int64_t kMachine = 1000 * 1024;
  for (const MemoryCase& c : std::vector<MemoryCase>{
           {"nothing can be read", {}, std::numeric_limits<int64_t>::max()},
           {"machine", {{"proc/meminfo", meminfo}}, kMachine},
           {"version 2, parent is lower",
            {{"proc/meminfo", meminfo},
             {"proc/self/cgroup", "0::/a/b\n"},
             {"sys/fs/cgroup/a/memory.max", "4096\n"},
             {"sys/fs/cgroup/a/b/memory.max", "8192\n"}},
            4096},
           {"version 2, no limit",
            {{"proc/meminfo", meminfo}, {"proc/self/cgroup", "0::/a\n"}, {"sys/fs/cgroup/a/memory.max", "max\n"}},
            kMachine},
           {"version 2, in a container",
            {{"proc/meminfo", meminfo}, {"proc/self/cgroup", "0::/\n"}, {"sys/fs/cgroup/memory.max", "5000\n"}},
            5000},
           {"version 1",
            {{"proc/meminfo", meminfo},
             {"proc/self/cgroup", "5:cpu,cpuacct:/x\n4:memory:/a/b\n"},
             {"sys/fs/cgroup/memory/x/memory.limit_in_bytes", "1\n"},
             {"sys/fs/cgroup/memory/a/b/memory.limit_in_bytes", "6000\n"},
             {"sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n"}},
            6000},
           {"version 1, in a container that sees the path of the host",
            {{"proc/meminfo", meminfo},
             {"proc/self/cgroup", "4:memory:/docker/0123\n"},
             {"sys/fs/cgroup/memory/memory.limit_in_bytes", "7000\n"}},
            7000},
           {"more than the machine has",
            {{"proc/meminfo", meminfo}, {"proc/self/cgroup", "0::/\n"}, {"sys/fs/cgroup/memory.max", "2000000\n"}},
            kMachine},
           {"nonsense",
            {{"proc/meminfo", meminfo}, {"proc/self/cgroup", "0:/\nx"}, {"sys/fs/cgroup/memory.max", "-1\n"}},
            kMachine},
       }) {
    const test::TemporaryFolder root;
    for (const auto& [path, content] : c.files) root.Write(path, content);
    EXPECT_EQ(MemoryLimitBytes(root.path().string()), c.expected) << c.name;
  }
}

TEST(MemoryLimitTest, FindsTheMemoryOfThisMachine) {
  EXPECT_GT(MemoryLimitBytes(), 1 << 20);
  EXPECT_LT(MemoryLimitBytes(), std::numeric_limits<int64_t>::max());
}

}  // namespace
}  // namespace attention::server
