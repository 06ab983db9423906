// Size of the machine's memory that this process may use.
#pragma once

#include <cstdint>
#include <string>

namespace nearfield {

// Returns the bytes of memory that this process may use: those of the machine, or less if its
// cgroup (a container, a service) has a lower limit.
int64_t PhysicalMemoryBytes();

// Returns the lowest memory limit of the process's cgroups and of all groups that contain them;
// INT64_MAX if no limit is set. Reads proc/self/cgroup and sys/fs/cgroup under `root`. Supports
// cgroup versions 1 and 2.
int64_t CgroupMemoryLimit(const std::string& root);

}  // namespace nearfield
