// The host's part of a large batch, spread over a few threads.
#ifndef NEARFIELD_ENGINE_BASE_HOST_WORK_H_
#define NEARFIELD_ENGINE_BASE_HOST_WORK_H_

#include <cstdint>
#include <mutex>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "engine/base/thread_pool.h"

namespace nearfield {

// Thread-safe: one caller at a time has the threads, others work alone meanwhile.
class HostWork {
 public:
  // threads_count >= 1: the caller of Spread counts.
  explicit HostWork(int32_t threads_count) : pool_(threads_count) {}

  // Calls body(i) once for each i in [0, count), on more threads than this one where the `bytes`
  // that all of it moves are worth waking them. Where bodies fail, the error of the least i; what
  // comes behind it may not have run. ResourceExhausted where a body runs out of memory.
  absl::Status Spread(int64_t count, int64_t bytes, absl::FunctionRef<absl::Status(int64_t)> body);

 private:
  std::mutex turn_;
  ThreadPool pool_;  // guarded by turn_
};

}  // namespace nearfield

#endif  // NEARFIELD_ENGINE_BASE_HOST_WORK_H_
