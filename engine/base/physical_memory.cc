#include "engine/base/physical_memory.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <initializer_list>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace nearfield {
namespace {

constexpr int64_t kNone = INT64_MAX;

// Returns the limit in a file; kNone if it is absent, unreadable or "max".
int64_t LimitIn(const std::string& path) {
  std::ifstream file(path);
  std::string text;
  int64_t bytes = 0;
  if (!(file >> text) || !absl::SimpleAtoi(text, &bytes) || bytes <= 0) return kNone;
  return bytes;
}

// Returns the lowest limit of the group `path` ("/a/b") and of the groups that contain it. In a
// container, the mount may begin at the container's own group. Then the host's path does not exist
// under it, and the root of the mount is the group.
int64_t LowestLimit(const std::string& mount, std::string path, const std::string& file) {
  int64_t lowest = LimitIn(absl::StrCat(mount, "/", file));
  while (path.size() > 1) {
    lowest = std::min(lowest, LimitIn(absl::StrCat(mount, path, "/", file)));
    path.resize(path.rfind('/'));
  }
  return lowest;
}

}  // namespace

int64_t CgroupMemoryLimit(const std::string& root) {
  const std::string mount = root + "/sys/fs/cgroup";
  int64_t lowest = kNone;
  std::ifstream groups(root + "/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    // "ID:CONTROLLERS:/PATH"; version 2 has ID 0 and no controllers.
    const std::vector<std::string> parts = absl::StrSplit(line, absl::MaxSplits(':', 2));
    if (parts.size() != 3 || !absl::StartsWith(parts[2], "/")) continue;
    const std::string& path = parts[2];
    if (parts[0] == "0" && parts[1].empty()) {
      for (const char* version_2 : {"", "/unified"}) {
        lowest = std::min(lowest, LowestLimit(mount + version_2, path, "memory.max"));
      }
    }
    for (const absl::string_view controller : absl::StrSplit(parts[1], ',')) {
      if (controller != "memory") continue;
      lowest = std::min(lowest, LowestLimit(mount + "/memory", path, "memory.limit_in_bytes"));
    }
  }
  return lowest;
}

int64_t PhysicalMemoryBytes() {
  const int64_t machine = int64_t{sysconf(_SC_PHYS_PAGES)} * int64_t{sysconf(_SC_PAGESIZE)};
  return std::min(machine, CgroupMemoryLimit(""));
}

}  // namespace nearfield
