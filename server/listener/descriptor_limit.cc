#include "server/listener/descriptor_limit.h"

#include <sys/resource.h>

#include <algorithm>

namespace nearfield::server {
namespace {

// Replaces RLIM_INFINITY; above the kernel's limit for one process (fs.nr_open).
constexpr rlim_t kLimitMax = 1 << 30;

}  // namespace

void RaiseDescriptorLimit() {
  rlimit limit = {};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  static_cast<void>(setrlimit(RLIMIT_NOFILE, &limit));  // DescriptorLimit() shows a failure
}

int64_t DescriptorLimit() {
  rlimit limit = {};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return 0;
  return static_cast<int64_t>(std::min(limit.rlim_cur, kLimitMax));
}

}  // namespace nearfield::server
