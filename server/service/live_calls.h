// The calls in flight, as the end of the server sees them.
#ifndef NEARFIELD_SERVER_SERVICE_LIVE_CALLS_H_
#define NEARFIELD_SERVER_SERVICE_LIVE_CALLS_H_

#include <functional>
#include <list>
#include <mutex>

#include "server/batching/search_request.h"

namespace nearfield::server {

// Thread-safe.
class LiveCalls {
  struct Entry {
    CancelFlag cancelled;
    std::function<void()> wake;
  };

 public:
  using Place = std::list<Entry>::iterator;

  // After Cancel the flag is set at once.
  Place Add(CancelFlag cancelled);
  // `wake` makes a call that waits for its client look at the flag and at the server's phase. It
  // is called on any thread, also after Remove.
  void SetWake(Place place, std::function<void()> wake);
  void Remove(Place place);

  // The server drains: wakes every call.
  void Wake();
  // The time of the drain is over: cancels every call and wakes it. Each ends by itself, with the
  // status and metadata of Call::Close.
  void Cancel();
  bool cancelled() const;

 private:
  mutable std::mutex mutex_;
  std::list<Entry> entries_;
  bool cancelled_ = false;
};

}  // namespace nearfield::server

#endif  // NEARFIELD_SERVER_SERVICE_LIVE_CALLS_H_
