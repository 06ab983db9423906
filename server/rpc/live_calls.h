// LiveCalls: the calls in flight, which the shutdown of the server wakes and cancels.
#pragma once

#include <functional>
#include <list>

#include "absl/base/thread_annotations.h"
#include "engine/base/mutex.h"
#include "server/scheduler/search_request.h"

namespace nearfield::server {

// Thread-safe.
class LiveCalls {
  struct Entry {
    CancelFlag cancelled;
    std::function<void()> wake;
  };

 public:
  using Place = std::list<Entry>::iterator;

  // Adds a call. After Cancel, sets the flag immediately.
  Place Add(CancelFlag cancelled);
  // `wake` interrupts a call's wait for its client: the call then checks the flag and the server's
  // phase. It is called on any thread, even after Remove.
  void SetWake(Place place, std::function<void()> wake);
  void Remove(Place place);

  // Wakes every call, when the server drains.
  void Wake();
  // Cancels and wakes every call, when the time of the drain is over. Each call ends itself, with
  // the status and metadata of Call::Close.
  void Cancel();
  bool cancelled() const;

 private:
  mutable Mutex mutex_;
  std::list<Entry> entries_ ABSL_GUARDED_BY(mutex_);
  bool cancelled_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace nearfield::server
