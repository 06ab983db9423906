#include "server/scheduler/timers.h"

namespace nearfield::server {

Timers::Timers() : thread_([this] { Run(); }) {}

Timers::~Timers() {
  {
    const MutexLock lock(mutex_);
    ending_ = true;
  }
  changed_.NotifyOne();
  thread_.join();
}

Timers::Id Timers::Start(std::chrono::milliseconds wait, std::function<void()> function) {
  const MutexLock lock(mutex_);
  const Id id(std::chrono::steady_clock::now() + wait, ++started_count_);
  const auto place = functions_.emplace(id, std::move(function)).first;
  if (place == functions_.begin()) changed_.NotifyOne();
  return id;
}

void Timers::Cancel(const Id& id) {
  std::function<void()> dropped;  // destroyed without the lock
  const MutexLock lock(mutex_);
  const auto place = functions_.find(id);
  if (place == functions_.end()) return;
  dropped = std::move(place->second);
  functions_.erase(place);
}

void Timers::Run() {
  MutexLock lock(mutex_);
  while (!ending_) {
    if (functions_.empty()) {
      changed_.Wait(lock);
      continue;
    }
    const auto first = functions_.begin();
    const TimePoint due = first->first.first;
    if (std::chrono::steady_clock::now() < due) {
      changed_.WaitUntil(lock, due);
      continue;
    }
    std::function<void()> function = std::move(first->second);
    functions_.erase(first);
    lock.Unlock();
    function();
    function = nullptr;
    lock.Lock();
  }
}

}  // namespace nearfield::server
