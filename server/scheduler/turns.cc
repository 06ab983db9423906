#include "server/scheduler/turns.h"

#include <utility>

#include "engine/base/check.h"

namespace nearfield::server {

absl::Status Turns::Post(WorkerPool* pool, Job job) {
  const void* const group = job.group;
  const MutexLock lock(mutex_);
  const auto [waiting, is_new] = waiting_.try_emplace(group);
  waiting->second.push_back(std::move(job));
  if (!is_new) return absl::OkStatus();  // the turn that is posted or runs posts the next one
  absl::Status posted = pool->Post([this, pool, group] { RunTurn(pool, group); });
  if (!posted.ok()) waiting_.erase(waiting);
  return posted;
}

void Turns::RunTurn(WorkerPool* pool, const void* group) {
  MutexLock lock(mutex_);
  std::deque<Job>& waiting = waiting_[group];
  do {
    Job job = std::move(waiting.front());
    waiting.pop_front();
    lock.Unlock();
    job.work();
    job.work = nullptr;
    job.after();
    lock.Lock();
  } while (!waiting.empty() && waiting.front().is_done());
  if (waiting.empty()) {
    waiting_.erase(group);
  } else {
    CHECK(pool->Post([this, pool, group] { RunTurn(pool, group); }).ok());
  }
}

}  // namespace nearfield::server
