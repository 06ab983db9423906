#include "server/scheduler/epoch_waiters.h"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/scheduler/refusal.h"
#include "server/telemetry/refusal_reason.h"

namespace nearfield::server {
namespace {

// Maximum delay until an expired deadline or a cancelled call is noticed.
constexpr std::chrono::milliseconds kLookEvery(10);
constexpr double kRetryUs = 100'000;

bool IsCancelled(const EpochWait& wait) {
  return wait.cancelled != nullptr && wait.cancelled->load(std::memory_order_relaxed);
}

bool IsDropped(const EpochWait& wait) { return wait.dropped && wait.dropped(); }

uint64_t EpochNow(const EpochWait& wait) { return wait.collection->PinEpoch()->epoch(); }

}  // namespace

EpochWaiters::EpochWaiters(int64_t waiting_max, const Clock* clock)
    : waiting_max_(waiting_max), clock_(clock), thread_([this] { Run(); }) {}

EpochWaiters::~EpochWaiters() {
  Close();
  thread_.join();
}

void EpochWaiters::Close() {
  {
    const MutexLock lock(mutex_);
    ending_ = true;
  }
  wake_.NotifyOne();
}

absl::Status EpochWaiters::StatusOf(const EpochWait& wait) const {
  const uint64_t now = EpochNow(wait);
  if (now >= wait.epoch) return absl::OkStatus();
  if (IsCancelled(wait)) return absl::CancelledError("the caller cancelled the call");
  if (IsDropped(wait)) {
    return absl::NotFoundError(absl::StrCat(
        "min_epoch: ", wait.epoch, " was not reached: the collection was dropped meanwhile"));
  }
  return absl::FailedPreconditionError(
      absl::StrCat("min_epoch: ", wait.epoch,
                   " was not reached within the deadline, the collection is "
                   "at epoch ",
                   now));
}

void EpochWaiters::Await(EpochWait wait) {
  if (EpochNow(wait) >= wait.epoch) return wait.done(absl::OkStatus());
  if (absl::Status refused = Take(&wait); !refused.ok()) return wait.done(std::move(refused));
  wake_.NotifyOne();
}

absl::Status EpochWaiters::Take(EpochWait* wait) {
  const MutexLock lock(mutex_);
  if (ending_) return Closed();
  if (static_cast<int64_t>(waits_.size()) >= waiting_max_) {
    return WithReason(
        Overloaded(absl::StrCat("min_epoch: ", waits_.size(),
                                " calls wait for an epoch, the limit is ", waiting_max_),
                   kRetryUs),
        "queue_requests_max");
  }
  waits_.push_back(std::move(*wait));
  return absl::OkStatus();
}

int64_t EpochWaiters::waiting() const {
  const MutexLock lock(mutex_);
  return static_cast<int64_t>(waits_.size());
}

void EpochWaiters::Nudge() {
  {
    const MutexLock lock(mutex_);
    if (waits_.empty()) return;
    nudged_ = true;
  }
  wake_.NotifyOne();
}

std::vector<EpochWait> EpochWaiters::TakeDone() {
  const TimePoint now = clock_->Now();
  const auto ended = std::partition(waits_.begin(), waits_.end(), [now](const EpochWait& wait) {
    return now < wait.deadline && !IsCancelled(wait) && !IsDropped(wait) &&
           EpochNow(wait) < wait.epoch;
  });
  std::vector<EpochWait> done(std::make_move_iterator(ended),
                              std::make_move_iterator(waits_.end()));
  waits_.erase(ended, waits_.end());
  return done;
}

void EpochWaiters::Run() {
  MutexLock lock(mutex_);
  while (!ending_) {
    while (!ending_ && waits_.empty()) wake_.Wait(lock);
    const std::vector<EpochWait> done = TakeDone();
    lock.Unlock();
    for (const EpochWait& wait : done) wait.done(StatusOf(wait));
    lock.Lock();
    const auto look_at = std::chrono::steady_clock::now() + kLookEvery;
    while (!ending_ && !nudged_ && !waits_.empty() && wake_.WaitUntil(lock, look_at)) {
    }
    nudged_ = false;
  }
  const std::vector<EpochWait> left = std::move(waits_);
  lock.Unlock();
  for (const EpochWait& wait : left) wait.done(Closed());
}

}  // namespace nearfield::server
