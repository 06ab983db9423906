// Replies that their readers have not taken yet: each call is cancelled once its time is over.
#ifndef NEARFIELD_SERVER_BATCHING_UNREAD_REPLIES_H_
#define NEARFIELD_SERVER_BATCHING_UNREAD_REPLIES_H_

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <thread>

#include "server/batching/clock.h"

namespace nearfield::server {

// Thread-safe. One thread looks for replies whose time is over.
class UnreadReplies {
 private:
  struct Entry {
    enum class State : uint8_t { kWaiting, kCancelling, kOver };
    std::function<void()> cancel;
    TimePoint deadline;
    State state = State::kWaiting;
    std::thread::id cancelled_by;
  };
  using Entries = std::list<std::shared_ptr<Entry>>;

 public:
  // One reply on its way.
  class Watch {
   public:
    Watch() = default;
    Watch(const Watch&) = delete;
    Watch& operator=(const Watch&) = delete;
    ~Watch() { End(); }

    // Calls `cancel` once if End does not come in time. Requires that the last one has ended.
    // `replies` outlives the watch.
    void Begin(UnreadReplies* replies, std::function<void()> cancel);
    // The reader has the reply, or the call is over. Waits for a `cancel` that is under way, except
    // on the thread of that `cancel`: what it uses may be destroyed afterwards. Requires that the
    // caller holds no lock that `cancel` takes.
    void End();

   private:
    UnreadReplies* replies_ = nullptr;
    Entries::iterator place_;
  };

  // `clock` outlives this.
  UnreadReplies(std::chrono::milliseconds limit, const Clock* clock);
  // Requires that every watch has ended.
  ~UnreadReplies();

  // Cancels the calls whose time is over. The thread does so several times within the limit.
  void CancelOverdue();
  // Of all calls so far.
  int64_t cancelled_count() const;

 private:
  Entries::iterator Add(std::function<void()> cancel);
  void Remove(Entries::iterator place);
  void Run();

  const std::chrono::milliseconds limit_;
  const Clock* const clock_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  Entries entries_;  // in the order of their deadlines
  int64_t cancelled_count_ = 0;
  bool ending_ = false;
  std::thread thread_;
};

}  // namespace nearfield::server

#endif  // NEARFIELD_SERVER_BATCHING_UNREAD_REPLIES_H_
