#include "server/scheduler/upload_places.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "engine/base/check.h"
#include "server/scheduler/retry_hint.h"
#include "server/telemetry/refusal_reason.h"

namespace nearfield::server {
namespace {

constexpr int64_t kUploadRetryMs = 1000;

// Returns the time to transfer `bytes`, rounded down. Requires: bytes_per_second > 0.
TimePoint::duration TimeFor(int64_t bytes, int64_t bytes_per_second) {
  const double seconds = static_cast<double>(bytes) / static_cast<double>(bytes_per_second);
  return std::chrono::duration_cast<TimePoint::duration>(std::chrono::duration<double>(seconds));
}

}  // namespace

int64_t CallerShareOf(int64_t total, int64_t percent) {
  return std::max<int64_t>(1, total * percent / 100);
}

UploadPlaces::Place::~Place() {
  const MutexLock lock(places_->mutex_);
  places_->entries_.erase(entry_);
}

void UploadPlaces::Place::Pause() {
  const MutexLock lock(places_->mutex_);
  if (std::exchange(entry_->paused, true)) return;
  entry_->credit = std::max(entry_->slow_at - places_->clock_->Now(), TimePoint::duration::zero());
}

void UploadPlaces::Place::Resume(int64_t bytes) {
  const Limits& limits = places_->limits_;
  const MutexLock lock(places_->mutex_);
  if (!std::exchange(entry_->paused, false)) return;
  TimePoint::duration credit = limits.window;
  // Bytes worth more than a window are not converted: the product could overflow.
  const auto window_bytes =
      static_cast<double>(limits.bytes_per_second_min) *
      std::chrono::duration_cast<std::chrono::duration<double>>(limits.window).count();
  if (static_cast<double>(bytes) < window_bytes) {
    credit = std::min(limits.window, entry_->credit + TimeFor(bytes, limits.bytes_per_second_min));
  }
  entry_->slow_at = places_->clock_->Now() + credit;
}

absl::StatusOr<std::unique_ptr<UploadPlaces::Place>> UploadPlaces::Take(const std::string& caller,
                                                                        Lose lose) {
  Lose slowest;
  absl::Status refusal;
  {
    const MutexLock lock(mutex_);
    const int64_t own = std::count_if(entries_.begin(), entries_.end(),
                                      [&](const Entry& entry) { return entry.caller == caller; });
    refusal = Refuse(caller, own, &slowest);
    if (refusal.ok()) {
      entries_.push_back(
          {.caller = caller, .lose = std::move(lose), .slow_at = clock_->Now() + limits_.window});
      CHECK_LE(static_cast<int64_t>(entries_.size()), limits_.places_max);
      return std::unique_ptr<Place>(new Place(this, std::prev(entries_.end())));
    }
  }
  if (slowest != nullptr) slowest(SlowStatus());
  return refusal;
}

int64_t UploadPlaces::count() const {
  const MutexLock lock(mutex_);
  return static_cast<int64_t>(entries_.size());
}

// Returns the refusal, if any, and sets `lose` to that of the upload that loses its place, if one
// does.
absl::Status UploadPlaces::Refuse(const std::string& caller, int64_t own, Lose* lose) {
  const auto count = static_cast<int64_t>(entries_.size());
  const bool is_full = count >= limits_.places_max;
  if (!is_full && own < limits_.caller_places_max) return absl::OkStatus();
  const auto slowest = SlowestOf(is_full ? nullptr : &caller);
  if (slowest != entries_.end()) *lose = std::exchange(slowest->lose, nullptr);
  if (is_full) {
    return WithReason(ExhaustedFor(kUploadRetryMs, "too many uploads at once: ", count,
                                   ", the limit uploads_max is ", limits_.places_max),
                      "uploads_max");
  }
  return WithReason(ExhaustedFor(kUploadRetryMs, "too many uploads of this caller at once: ", own,
                                 ", the limit, caller_share_percent of uploads_max, is ",
                                 limits_.caller_places_max),
                    "caller_share_percent");
}

// Returns the upload that has been without credit for the longest time, of this caller or, if null,
// of all callers.
std::list<UploadPlaces::Entry>::iterator UploadPlaces::SlowestOf(const std::string* caller) {
  const TimePoint now = clock_->Now();
  auto slowest = entries_.end();
  if (limits_.bytes_per_second_min == 0) return slowest;
  for (auto it = entries_.begin(); it != entries_.end(); ++it) {
    if (it->paused || it->lose == nullptr || it->slow_at > now) continue;
    if (caller != nullptr && it->caller != *caller) continue;
    if (slowest == entries_.end() || it->slow_at < slowest->slow_at) slowest = it;
  }
  return slowest;
}

absl::Status UploadPlaces::SlowStatus() const {
  const auto window_ms =
      std::chrono::duration_cast<std::chrono::milliseconds>(limits_.window).count();
  return WithReason(
      ExhaustedFor(
          kUploadRetryMs, "the upload is slower than upload_bytes_per_second_min, ",
          limits_.bytes_per_second_min, " bytes a second over upload_idle_ms, ", window_ms,
          " ms, and another one needs its place: nothing is committed; with an upload_token it "
          "may go on later"),
      "upload_bytes_per_second_min");
}

}  // namespace nearfield::server
