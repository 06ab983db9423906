#include "server/rpc/live_calls.h"

#include <utility>
#include <vector>

namespace nearfield::server {

LiveCalls::Place LiveCalls::Add(CancelFlag cancelled) {
  const MutexLock lock(mutex_);
  if (cancelled_) cancelled->store(true);
  return entries_.insert(entries_.end(), {.cancelled = std::move(cancelled), .wake = nullptr});
}

void LiveCalls::SetWake(Place place, std::function<void()> wake) {
  const MutexLock lock(mutex_);
  place->wake = std::move(wake);
}

void LiveCalls::Remove(Place place) {
  const MutexLock lock(mutex_);
  entries_.erase(place);
}

void LiveCalls::Wake() {
  std::vector<std::function<void()>> wakes;  // called without the lock: a call may call Remove
  {
    const MutexLock lock(mutex_);
    for (const Entry& entry : entries_) {
      if (entry.wake != nullptr) wakes.push_back(entry.wake);
    }
  }
  for (const auto& wake : wakes) wake();
}

void LiveCalls::Cancel() {
  {
    const MutexLock lock(mutex_);
    cancelled_ = true;
    for (const Entry& entry : entries_) entry.cancelled->store(true);
  }
  Wake();
}

bool LiveCalls::cancelled() const {
  const MutexLock lock(mutex_);
  return cancelled_;
}

}  // namespace nearfield::server
