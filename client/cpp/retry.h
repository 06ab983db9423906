// Retry policy: when a call is retried, and when it fails.
//
// gRPC's own retryPolicy honours the server's hint (grpc-retry-pushback-ms), but was not enough in
// an experiment with gRPC 1.51 and 1.85:
//   It makes at most 5 tries, within 0.8 s: a server that restarts is away for longer.
//   With wait_for_ready a call waits longer, but ends DEADLINE_EXCEEDED without a reason.
//   It repeats RESOURCE_EXHAUSTED without a hint, too: a lack of memory.
//   It has no tries that are not counted, which an upload with a token needs.
#pragma once

#include <chrono>
#include <functional>
#include <optional>

#include "absl/status/status.h"
#include "nearfield/client/options.h"

namespace nearfield::client {

using TimePoint = std::chrono::steady_clock::time_point;

// The clock of the retries; tests replace it.
class Clock {
 public:
  virtual ~Clock() = default;
  virtual TimePoint Now() = 0;
  virtual void SleepFor(std::chrono::milliseconds duration) = 0;
  // Returns the steady clock.
  static Clock* Real();
};

// The outcome of one try.
struct Attempt {
  absl::Status status;
  std::optional<std::chrono::milliseconds> retry_after;  // the server's hint
  // Retry regardless of the status. For a limited time such tries do not use up tries_max.
  bool retry_always = false;
};

struct RetryPlan {
  RetryPolicy policy;
  TimePoint deadline;      // of all tries including the waits between them
  bool idempotent = true;  // false: one try only
};

// Runs `attempt` until it succeeds, fails for good, or no time or try is left; returns the last
// status. Retried: UNAVAILABLE, RESOURCE_EXHAUSTED with a hint, and tries with `retry_always` (for
// ten seconds after the first of them). The wait doubles from try to try, is drawn at random from
// its upper half, and is never shorter than the hint. A wait that would exceed the deadline is not
// begun.
absl::Status RunWithRetries(const RetryPlan& plan, Clock& clock,
                            const std::function<Attempt()>& attempt);

}  // namespace nearfield::client
