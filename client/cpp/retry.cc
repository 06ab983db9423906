#include "client/cpp/retry.h"

#include <algorithm>
#include <random>
#include <thread>

namespace nearfield::client {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kRetryAlwaysWithin{10000};
// Minimum wait before a try after `retry_always`, whatever the policy: tries_max does not limit
// such tries.
constexpr milliseconds kRetryAlwaysWaitMin{50};

class SteadyClock final : public Clock {
 public:
  TimePoint Now() override { return std::chrono::steady_clock::now(); }
  void SleepFor(milliseconds duration) override { std::this_thread::sleep_for(duration); }
};

bool WorthRepeating(const Attempt& outcome) {
  if (outcome.retry_always || outcome.status.code() == absl::StatusCode::kUnavailable) return true;
  return outcome.status.code() == absl::StatusCode::kResourceExhausted &&
         outcome.retry_after.has_value();
}

// Random, so that many clients that were refused together do not retry together.
milliseconds Jittered(milliseconds backoff) {
  thread_local std::minstd_rand random(std::random_device{}());
  const int64_t half = std::max<int64_t>(backoff.count() / 2, 0);
  return milliseconds(std::uniform_int_distribution<int64_t>(half, backoff.count())(random));
}

}  // namespace

Clock* Clock::Real() {
  static SteadyClock clock;
  return &clock;
}

absl::Status RunWithRetries(const RetryPlan& plan, Clock& clock,
                            const std::function<Attempt()>& attempt) {
  milliseconds backoff = std::max(plan.policy.backoff_first, milliseconds(0));
  std::optional<TimePoint> retry_always_until;
  for (int32_t tries = 0;;) {
    const Attempt outcome = attempt();
    if (outcome.status.ok() || !plan.idempotent || !WorthRepeating(outcome)) return outcome.status;
    milliseconds wait_min = outcome.retry_after.value_or(milliseconds(0));
    if (outcome.retry_always) {
      const TimePoint now = clock.Now();
      if (!retry_always_until) retry_always_until = now + kRetryAlwaysWithin;
      if (now >= *retry_always_until) return outcome.status;
      wait_min = std::max(wait_min, kRetryAlwaysWaitMin);
    } else if (++tries >= plan.policy.tries_max) {
      return outcome.status;
    }
    const milliseconds wait = std::max(Jittered(backoff), wait_min);
    const auto time_left = std::chrono::duration_cast<milliseconds>(plan.deadline - clock.Now());
    if (wait >= time_left) return outcome.status;
    clock.SleepFor(wait);
    backoff = std::min(backoff * 2, plan.policy.backoff_max);
  }
}

}  // namespace nearfield::client
