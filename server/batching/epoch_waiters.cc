#include "server/batching/epoch_waiters.h"

#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/batching/refusal.h"

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
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  wake_.notify_one();
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
  wake_.notify_one();
}

absl::Status EpochWaiters::Take(EpochWait* wait) {
  const std::lock_guard lock(mutex_);
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
  const std::lock_guard lock(mutex_);
  return static_cast<int64_t>(waits_.size());
}

void EpochWaiters::Nudge() {
  {
    const std::lock_guard lock(mutex_);
    if (waits_.empty()) return;
    nudged_ = true;
  }
  wake_.notify_one();
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
  std::unique_lock lock(mutex_);
  while (!ending_) {
    wake_.wait(lock, [this] { return ending_ || !waits_.empty(); });
    const std::vector<EpochWait> done = TakeDone();
    lock.unlock();
    for (const EpochWait& wait : done) wait.done(StatusOf(wait));
    lock.lock();
    wake_.wait_for(lock, kTick, [this] { return ending_ || nudged_ || waits_.empty(); });
    nudged_ = false;
  }
  const std::vector<EpochWait> left = std::move(waits_);
  lock.unlock();
  for (const EpochWait& wait : left) wait.done(Closed());
}

}  // namespace nearfield::server
