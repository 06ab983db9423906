#include "server/scheduler/worker_pool.h"

#include <sys/resource.h>
#include <unistd.h>

#include <functional>
#include <utility>

#include "engine/base/check.h"
#include "engine/base/out_of_memory.h"
#include "server/scheduler/retry_hint.h"
#include "server/telemetry/refusal_reason.h"

namespace nearfield::server {
namespace {

constexpr int64_t kRetryAfterMs = 500;

}  // namespace

WorkerPool::WorkerPool(const Options& options) : options_(options) {
  threads_.reserve(static_cast<size_t>(options_.threads));
  for (int64_t i = 0; i < options_.threads; ++i) threads_.emplace_back([this] { Loop(); });
}

WorkerPool::~WorkerPool() {
  {
    const MutexLock lock(mutex_);
    closed_ = true;
  }
  arrived_.NotifyAll();
  for (std::thread& thread : threads_) thread.join();
  CHECK(jobs_.empty());  // the threads end after the last job
}

absl::Status WorkerPool::Post(std::function<void()> job, std::function<void()> after) {
  {
    const MutexLock lock(mutex_);
    const int64_t present = running_ + static_cast<int64_t>(jobs_.size());
    if (present >= options_.threads + options_.waiting_max) {
      return WithReason(
          ExhaustedFor(kRetryAfterMs, "too many ", options_.what, " at once: ", present,
                       ", the limit is ", options_.threads + options_.waiting_max),
          options_.what.substr(0, options_.what.find(' ')));
    }
    jobs_.push_back({std::move(job), std::move(after)});
  }
  arrived_.NotifyOne();
  return absl::OkStatus();
}

void WorkerPool::RunBeside(absl::FunctionRef<void()> job, absl::FunctionRef<void()> here) {
  Mutex mutex;
  CondVar ended;
  bool done = false;
  const auto finish = [&] {
    const MutexLock lock(mutex);
    done = true;
    ended.NotifyOne();  // with the lock held: the caller destroys `ended` once it has seen `done`
  };
  const absl::Status posted = CatchOutOfMemory([&] { return Post(job, std::cref(finish)); });
  here();
  if (!posted.ok()) return job();
  MutexLock lock(mutex);
  while (!done) ended.Wait(lock);
}

void WorkerPool::Loop() {
  if (options_.nice != 0) {  // ignore a failure: the work is done at normal priority
    static_cast<void>(setpriority(PRIO_PROCESS, static_cast<id_t>(gettid()), options_.nice));
  }
  MutexLock lock(mutex_);
  while (true) {
    while (!closed_ && jobs_.empty()) arrived_.Wait(lock);
    if (jobs_.empty()) return;
    Job job = std::move(jobs_.front());
    jobs_.pop_front();
    ++running_;
    lock.Unlock();
    job.work();
    job.work = nullptr;  // releases what the job holds before the place is free
    lock.Lock();
    --running_;
    CHECK_GE(running_, 0);
    lock.Unlock();
    if (job.after != nullptr) job.after();
    job.after = nullptr;
    lock.Lock();
  }
}

}  // namespace nearfield::server
