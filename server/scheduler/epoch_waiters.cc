#include "server/scheduler/epoch_waiters.h"

#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/scheduler/refusal.h"

namespace nearfield::server {
namespace {

// Maximum delay until an expired deadline or a cancelled call is noticed.
constexpr std::chrono::milliseconds kTick(10);
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
    return Overloaded(absl::StrCat("min_epoch: ", waits_.size(),
                                   " calls wait for an epoch, the limit is ", waiting_max_),
                      kRetryUs);
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
  std::vector<EpochWait> done;
  for (size_t i = 0; i < waits_.size();) {
    const EpochWait& wait = waits_[i];
    if (now < wait.deadline && !IsCancelled(wait) && !IsDropped(wait) &&
        EpochNow(wait) < wait.epoch) {
      ++i;
      continue;
    }
    done.push_back(std::move(waits_[i]));
    std::swap(waits_[i], waits_.back());
    waits_.pop_back();
  }
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
    const auto look_at = std::chrono::steady_clock::now() + kTick;
    while (!ending_ && !nudged_ && !waits_.empty() && wake_.WaitUntil(lock, look_at)) {
    }
    nudged_ = false;
  }
  const std::vector<EpochWait> left = std::move(waits_);
  lock.Unlock();
  for (const EpochWait& wait : left) wait.done(Closed());
}

}  // namespace nearfield::server
