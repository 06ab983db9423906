// YieldToSearches: lowers the priority of a background thread.
#pragma once

#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace nearfield::server {

// Lowers the priority of the calling thread below that of the serving threads. Does nothing if the
// system does not allow that.
inline void YieldToSearches() {
  constexpr int kNice = 10;
  const auto thread = static_cast<id_t>(syscall(SYS_gettid));
  static_cast<void>(setpriority(PRIO_PROCESS, thread, kNice));
}

}  // namespace nearfield::server
