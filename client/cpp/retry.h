// When a call is tried again, and when it is given up. Knows nothing of gRPC.
#ifndef NEARFIELD_CLIENT_CPP_RETRY_H_
#define NEARFIELD_CLIENT_CPP_RETRY_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>

#include "absl/status/status.h"
#include "nearfield/client/options.h"

namespace nearfield::client {

using TimePoint = std::chrono::steady_clock::time_point;

// Time as the retries see it; tests put a fake in its place.
class Clock {
 public:
  virtual ~Clock() = default;
  virtual TimePoint Now() = 0;
  virtual void SleepFor(std::chrono::milliseconds duration) = 0;
  // The steady clock.
  static Clock* Real();
};

// What one try came to.
struct Attempt {
  absl::Status status;
  std::optional<std::chrono::milliseconds> retry_after;  // the server's hint
  // Worth another try, whatever the status; counts as none of tries_max, for a while.
  bool passes_over = false;
};

struct RetryPlan {
  RetryPolicy policy;
  TimePoint deadline;      // of all tries and the waits between them
  bool idempotent = true;  // false: one try only
};

// Runs `attempt` until it succeeds, fails for good, or no time or try is left; returns the last
// status. Tried again: UNAVAILABLE, RESOURCE_EXHAUSTED with a hint, and what passes over (for ten
// seconds from its first time on). The wait doubles from try to try, is drawn at random from its
// upper half, and is never shorter than the hint; a wait that would pass the deadline is not begun.
absl::Status RunWithRetries(const RetryPlan& plan, Clock& clock,
                            const std::function<Attempt()>& attempt);

}  // namespace nearfield::client

#endif  // NEARFIELD_CLIENT_CPP_RETRY_H_
