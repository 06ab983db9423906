// HostWork: runs the host's part of a large batch on a few threads.
#pragma once

#include <cstdint>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "engine/base/mutex.h"
#include "engine/base/thread_pool.h"

namespace nearfield {

inline constexpr int32_t kHostThreadsMax = 16;  // of one HostWork: its loops wait for memory

// Thread safety: thread-safe. One caller at a time uses the threads; others run alone in the
// meantime.
class HostWork {
 public:
  // threads_count >= 1 includes the caller of ParallelFor.
  explicit HostWork(int32_t threads_count) : threads_count_(threads_count), pool_(threads_count) {}

  // Calls body(i) once for each i in [0, count). Uses further threads only if the `bytes` that the
  // whole loop moves justify waking them. Errors: that of the smallest failing i, and bodies after
  // it may not have run; ResourceExhausted (a body runs out of memory).
  absl::Status ParallelFor(int64_t count, int64_t bytes,
                           absl::FunctionRef<absl::Status(int64_t)> body);

 private:
  const int32_t threads_count_;
  Mutex turn_;
  ThreadPool pool_ ABSL_GUARDED_BY(turn_);
};

}  // namespace nearfield
