#include "server/runtime/cpu_limits.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

#include "tests/testing/files/temporary_folder.h"

namespace attention::server {
namespace {

constexpr char kVersion2[] = "30 23 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw\n";
constexpr char kVersion1[] =
    "33 32 0:29 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
    "36 32 0:31 / /sys/fs/cgroup/cpu,cpuacct rw master:9 - cgroup cgroup rw,cpu,cpuacct\n";

struct QuotaCase {
  const char* name;
  std::string cgroup, mountinfo;
  std::map<std::string, std::string> files;  // below /sys/fs/cgroup
  double quota;
  std::string quota_file;
};

const QuotaCase kCases[] = {
    {"NoFiles", "", "", {}, 0, ""},
    {"Version2", "0::/a\n", kVersion2, {{"a/cpu.max", "150000 100000\n"}}, 1.5, "/sys/fs/cgroup/a/cpu.max"},
    {"Version2OfAParent",
     "0::/a/b\n",
     kVersion2,
     {{"a/cpu.max", "50000 100000\n"}, {"a/b/cpu.max", "max 100000\n"}},
     0.5,
     "/sys/fs/cgroup/a/cpu.max"},
    {"Version2SmallestOfSeveral",
     "0::/a/b\n",
     kVersion2,
     {{"a/cpu.max", "300000 100000\n"}, {"a/b/cpu.max", "200000 100000\n"}},
     2,
     "/sys/fs/cgroup/a/b/cpu.max"},
    {"Version2Container", "0::/\n", kVersion2, {{"cpu.max", "50000 100000\n"}}, 0.5, "/sys/fs/cgroup/cpu.max"},
    {"Version2PathThatIsNotVisible",
     "0::/system.slice/docker-12.scope\n",
     kVersion2,
     {{"cpu.max", "50000 100000\n"}},
     0.5,
     "/sys/fs/cgroup/cpu.max"},
    {"Version2PathOutsideOfTheNamespace",
     "0::/../../other\n",
     kVersion2,
     {{"cpu.max", "50000 100000\n"}},
     0.5,
     "/sys/fs/cgroup/cpu.max"},
    {"Version1",
     "5:memory:/m\n4:cpu,cpuacct:/a\n0::/\n",
     kVersion1,
     {{"cpu,cpuacct/a/cpu.cfs_quota_us", "50000\n"}, {"cpu,cpuacct/a/cpu.cfs_period_us", "100000\n"}},
     0.5,
     "/sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_quota_us"},
    {"Version1Container",
     "4:cpu,cpuacct:/docker/12/nested\n",
     "36 32 0:31 /docker/12 /sys/fs/cgroup/cpu rw master:9 - cgroup cgroup rw,cpu,cpuacct\n",
     {{"cpu/nested/cpu.cfs_quota_us", "250000\n"}, {"cpu/nested/cpu.cfs_period_us", "100000\n"}},
     2.5,
     "/sys/fs/cgroup/cpu/nested/cpu.cfs_quota_us"},
    {"Version1WithoutLimit",
     "4:cpu,cpuacct:/a\n",
     kVersion1,
     {{"cpu,cpuacct/a/cpu.cfs_quota_us", "-1\n"}, {"cpu,cpuacct/a/cpu.cfs_period_us", "100000\n"}},
     0,
     ""},
    {"Nonsense", "0::/\nx\n", kVersion2, {{"cpu.max", "nonsense\n"}}, 0, ""},
    {"ZeroPeriod", "0::/\n", kVersion2, {{"cpu.max", "1 0\n"}}, 0, ""},
    {"NegativeQuota", "0::/\n", kVersion2, {{"cpu.max", "-1 100000\n"}}, 0, ""},
    {"TooManyNumbers", "0::/\n", kVersion2, {{"cpu.max", "1 2 3\n"}}, 0, ""},
};

class CpuLimitsTest : public ::testing::TestWithParam<QuotaCase> {};

TEST_P(CpuLimitsTest, FindsTheQuota) {
  const test::TemporaryFolder root;
  root.Write("proc/self/cgroup", GetParam().cgroup);
  root.Write("proc/self/mountinfo", GetParam().mountinfo);
  for (const auto& [file, content] : GetParam().files) root.Write("sys/fs/cgroup/" + file, content);
  const CpuLimits limits = ReadCpuLimits(root.path().string());
  EXPECT_EQ(limits.quota, GetParam().quota);
  EXPECT_EQ(limits.quota_file, GetParam().quota_file);
}

INSTANTIATE_TEST_SUITE_P(Quotas, CpuLimitsTest, ::testing::ValuesIn(kCases),
                         [](const auto& info) { return info.param.name; });

TEST(CpuLimitsCountTest, TakesTheSmallerLimitRoundedUp) {
  EXPECT_EQ((CpuLimits{.affinity = 4, .quota = 0, .quota_file = {}}).cpus(), 4);
  EXPECT_EQ((CpuLimits{.affinity = 4, .quota = 0.5, .quota_file = {}}).cpus(), 1);
  EXPECT_EQ((CpuLimits{.affinity = 4, .quota = 1.5, .quota_file = {}}).cpus(), 2);
  EXPECT_EQ((CpuLimits{.affinity = 4, .quota = 1e18, .quota_file = {}}).cpus(), 4);
}

TEST(CpuLimitsCountTest, SaysWhichLimitsThereAre) {
  EXPECT_EQ((CpuLimits{.affinity = 4, .quota = 0, .quota_file = {}}).Describe(), "4 CPUs: 4 by affinity, no quota");
  EXPECT_EQ((CpuLimits{.affinity = 4, .quota = 0.5, .quota_file = "/sys/fs/cgroup/cpu.max"}).Describe(),
            "1 CPU: 4 by affinity, quota 0.5 (/sys/fs/cgroup/cpu.max)");
}

}  // namespace
}  // namespace attention::server
