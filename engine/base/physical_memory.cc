#include "engine/base/physical_memory.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <string>

#include "absl/strings/numbers.h"

namespace nearfield {
namespace {

// The limit a cgroup file states; a huge number where it is absent, unreadable or "max".
int64_t CgroupLimit(const char* path) {
  constexpr int64_t kNone = INT64_MAX;
  std::ifstream file(path);
  std::string text;
  int64_t bytes = 0;
  if (!(file >> text) || !absl::SimpleAtoi(text, &bytes) || bytes <= 0) return kNone;
  return bytes;
}

}  // namespace

int64_t PhysicalMemoryBytes() {
  const int64_t machine = int64_t{sysconf(_SC_PHYS_PAGES)} * int64_t{sysconf(_SC_PAGESIZE)};
  return std::min({machine, CgroupLimit("/sys/fs/cgroup/memory.max"),
                   CgroupLimit("/sys/fs/cgroup/memory/memory.limit_in_bytes")});
}

}  // namespace nearfield
