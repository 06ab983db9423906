// WorkerPool: threads for engine calls that may block, so that gRPC's threads never wait for the
// engine.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "engine/base/mutex.h"

namespace nearfield::server {

class WorkerPool {
 public:
  struct Options {
    // Named in the error: "verifications". The first word is the reason of a refusal.
    std::string what;
    int64_t threads = 1;      // jobs that run concurrently
    int64_t waiting_max = 0;  // jobs that may wait for a thread
    int nice = 0;             // of the threads
  };
  explicit WorkerPool(const Options& options);
  // Runs the waiting jobs, then joins the threads.
  ~WorkerPool();

  // Runs `job`, frees its place, then runs `after`. A caller that is answered in `after` finds the
  // place free. Runs neither on error.
  // Errors: ResourceExhausted with a retry hint (threads + waiting_max jobs are present).
  absl::Status Post(std::function<void()> job, std::function<void()> after = nullptr);

  // Runs `here` on this thread and concurrently `job` on a thread of the pool. Returns after both.
  // If the pool takes no job, or memory for it is lacking, runs `job` after `here`. Requires:
  // neither throws.
  void RunBeside(absl::FunctionRef<void()> job, absl::FunctionRef<void()> here);

 private:
  struct Job {
    std::function<void()> work;
    std::function<void()> after;
  };
  void Loop();

  const Options options_;
  Mutex mutex_;
  CondVar arrived_;
  std::deque<Job> jobs_ ABSL_GUARDED_BY(mutex_);
  int64_t running_ ABSL_GUARDED_BY(mutex_) = 0;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;
};

}  // namespace nearfield::server
