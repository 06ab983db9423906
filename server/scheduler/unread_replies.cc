#include "server/scheduler/unread_replies.h"

#include <algorithm>
#include <utility>

#include "engine/base/check.h"

namespace nearfield::server {
namespace {

// The thread checks kLooks times within the limit, but at intervals of at least kTickMin.
constexpr int kLooks = 8;
constexpr std::chrono::milliseconds kTickMin(5);

}  // namespace

void UnreadReplies::Watch::Begin(UnreadReplies* replies, std::function<void()> cancel) {
  End();
  place_ = replies->Add(std::move(cancel));
  replies_ = replies;
}

void UnreadReplies::Watch::End() {
  if (UnreadReplies* const replies = std::exchange(replies_, nullptr)) replies->Remove(place_);
}

UnreadReplies::UnreadReplies(std::chrono::milliseconds limit, const Clock* clock)
    : limit_(limit), clock_(clock), thread_([this] { Run(); }) {}

UnreadReplies::~UnreadReplies() {
  {
    const MutexLock lock(mutex_);
    ending_ = true;
  }
  changed_.NotifyAll();
  thread_.join();
  DCHECK(entries_.empty());
}

UnreadReplies::Entries::iterator UnreadReplies::Add(std::function<void()> cancel) {
  auto entry = std::make_shared<Entry>();
  entry->cancel = std::move(cancel);
  const MutexLock lock(mutex_);
  entry->deadline = clock_->Now() + limit_;  // set under the lock: the list is ordered by deadline
  DCHECK(entries_.empty() || entries_.back()->deadline <= entry->deadline);
  return entries_.insert(entries_.end(), std::move(entry));
}

void UnreadReplies::Remove(Entries::iterator place) {
  MutexLock lock(mutex_);
  const std::shared_ptr<Entry> entry = *place;
  entries_.erase(place);
  if (entry->cancelled_by == std::this_thread::get_id()) return;
  while (entry->state == Entry::State::kCancelling) changed_.Wait(lock);
}

void UnreadReplies::CancelOverdue() {
  MutexLock lock(mutex_);
  const TimePoint now = clock_->Now();
  while (true) {
    const auto due = std::find_if(entries_.begin(), entries_.end(), [](const auto& entry) {
      return entry->state == Entry::State::kWaiting;
    });
    if (due == entries_.end() || (*due)->deadline > now) return;
    const std::shared_ptr<Entry> entry = *due;
    entry->state = Entry::State::kCancelling;
    entry->cancelled_by = std::this_thread::get_id();
    ++cancelled_count_;
    lock.Unlock();
    entry->cancel();
    lock.Lock();
    entry->state = Entry::State::kOver;
    entry->cancelled_by = std::thread::id();
    changed_.NotifyAll();
  }
}

int64_t UnreadReplies::cancelled_count() const {
  const MutexLock lock(mutex_);
  return cancelled_count_;
}

void UnreadReplies::Run() {
  const auto tick = std::max(limit_ / kLooks, kTickMin);
  MutexLock lock(mutex_);
  while (!ending_) {
    changed_.WaitFor(lock, tick);
    if (ending_ || entries_.empty()) continue;
    lock.Unlock();
    CancelOverdue();
    lock.Lock();
  }
}

}  // namespace nearfield::server
