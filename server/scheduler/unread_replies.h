// UnreadReplies: cancels calls whose readers do not take their replies in time.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "engine/base/mutex.h"
#include "server/scheduler/clock.h"

namespace nearfield::server {

// Replies that are being sent. One thread cancels the overdue ones.
// Thread-safe.
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
  // Watches one reply while it is sent.
  class Watch {
   public:
    Watch() = default;
    Watch(const Watch&) = delete;
    Watch& operator=(const Watch&) = delete;
    ~Watch() { End(); }

    // Calls `cancel` once if End is not called in time. `replies` outlives the watch.
    // Requires: the previous watch period has ended.
    void Begin(UnreadReplies* replies, std::function<void()> cancel);
    // Ends the watch: the reader has the reply, or the call is over. Waits for a running `cancel`,
    // except on the thread that runs it, so the objects it uses may be destroyed afterwards.
    // Requires: the caller holds no lock that `cancel` takes.
    void End();

   private:
    UnreadReplies* replies_ = nullptr;
    Entries::iterator place_;
  };

  // `clock` outlives this object.
  UnreadReplies(std::chrono::milliseconds limit, const Clock* clock);
  // Requires: every watch has ended.
  ~UnreadReplies();

  // Cancels the overdue calls. The thread calls this several times within the limit.
  void CancelOverdue() ABSL_LOCKS_EXCLUDED(mutex_);
  // Returns the number of calls cancelled so far.
  int64_t cancelled_count() const;

 private:
  Entries::iterator Add(std::function<void()> cancel);
  void Remove(Entries::iterator place);
  void Run();

  const std::chrono::milliseconds limit_;
  const Clock* const clock_;
  mutable Mutex mutex_;
  CondVar changed_;
  Entries entries_ ABSL_GUARDED_BY(mutex_);  // ordered by deadline
  int64_t cancelled_count_ ABSL_GUARDED_BY(mutex_) = 0;
  bool ending_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace nearfield::server
