// Turns: shares a worker pool between groups of jobs, so that a group with many slow jobs delays
// each other group by one job.
#pragma once

#include <deque>
#include <functional>
#include <map>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "engine/base/mutex.h"
#include "server/scheduler/worker_pool.h"

namespace nearfield::server {

// Thread-safe. Destroyed after the pool, which runs its jobs.
class Turns {
 public:
  struct Job {
    const void* group = nullptr;  // only compared
    std::function<void()> work;
    std::function<void()> after;  // runs once `work` is released
    // Returns whether an earlier job of the group has done this one's work, too: then this one runs
    // in the same turn.
    std::function<bool()> is_done;
  };

  // Runs the job on the pool. Jobs of a group run one at a time, in their order; groups take turns.
  // Requires: the pool has two places for each group that has a job, and no other user.
  // Errors: as WorkerPool::Post; then the job does not run.
  absl::Status Post(WorkerPool* pool, Job job);

 private:
  // Runs the next job of the group, and those that are done then.
  void RunTurn(WorkerPool* pool, const void* group);

  Mutex mutex_;
  std::map<const void*, std::deque<Job>> waiting_ ABSL_GUARDED_BY(mutex_);  // by group
};

}  // namespace nearfield::server
