// Tests of the memory limit of a process, read from the files of its cgroups.
#include "engine/base/physical_memory.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>

namespace nearfield {
namespace {

// A folder that replaces "/".
class CgroupTest : public ::testing::Test {
 protected:
  CgroupTest() : root_(::testing::TempDir() + "/cgroup_" + std::to_string(getpid())) {
    std::filesystem::remove_all(root_);
  }
  ~CgroupTest() override { std::filesystem::remove_all(root_); }

  void Write(const std::string& path, const std::string& text) const {
    const std::filesystem::path file = root_ + path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }
  int64_t Limit() const { return CgroupMemoryLimit(root_); }

 private:
  const std::string root_;
};

// Regression: the limit of a service is in its own group. Only the root group was read, which has
// no limit, so a server in 1 GiB reported 12 GB and was killed.
TEST_F(CgroupTest, TheLimitOfTheProcessesOwnGroupCounts) {
  Write("/proc/self/cgroup", "0::/system.slice/nearfield.service\n");
  Write("/sys/fs/cgroup/system.slice/nearfield.service/memory.max", "1073741824\n");
  EXPECT_EQ(Limit(), 1073741824);
}

TEST_F(CgroupTest, TheLowestOfNestedLimitsCounts) {
  Write("/proc/self/cgroup", "0::/a/b/c\n");
  Write("/sys/fs/cgroup/memory.max", "5000\n");
  Write("/sys/fs/cgroup/a/memory.max", "1000\n");
  Write("/sys/fs/cgroup/a/b/memory.max", "max\n");
  Write("/sys/fs/cgroup/a/b/c/memory.max", "3000\n");
  EXPECT_EQ(Limit(), 1000);
  Write("/sys/fs/cgroup/memory.max", "500\n");  // the mount of a container's own group
  EXPECT_EQ(Limit(), 500);
}

TEST_F(CgroupTest, Version1AndBothTogether) {
  Write("/proc/self/cgroup", "7:cpu,memory:/docker/1\n3:cpuset:/other\n0::/unit\n");
  Write("/sys/fs/cgroup/memory/docker/1/memory.limit_in_bytes", "4096\n");
  Write("/sys/fs/cgroup/memory/other/memory.limit_in_bytes", "1\n");
  Write("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  EXPECT_EQ(Limit(), 4096);
  Write("/sys/fs/cgroup/unified/unit/memory.max", "2048\n");
  EXPECT_EQ(Limit(), 2048);
}

TEST_F(CgroupTest, WithoutALimitThereIsNone) {
  EXPECT_EQ(Limit(), INT64_MAX);
  Write("/proc/self/cgroup", "nonsense\n0::relative\n1:memory\n0::/a/../b\n");
  Write("/sys/fs/cgroup/memory.max", "max\n");
  Write("/sys/fs/cgroup/b/memory.max", "0\n");
  EXPECT_EQ(Limit(), INT64_MAX);
  EXPECT_GT(PhysicalMemoryBytes(), 0);
}

}  // namespace
}  // namespace nearfield
