// The refusals of the queue: what is said, and when to come back.
#ifndef NEARFIELD_SERVER_BATCHING_REFUSAL_H_
#define NEARFIELD_SERVER_BATCHING_REFUSAL_H_

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "server/batching/clock.h"
#include "server/batching/forecast.h"

namespace nearfield::server {

struct LatenessLimits {
  TimePoint now;
  std::optional<TimePoint> deadline;
  double wait_us_max = 0;  // whatever the deadline
};

// ResourceExhausted where the forecast passes a limit: names both, and hints at when it would not,
// if nothing else came.
absl::Status CheckLateness(const Forecast& forecast, const LatenessLimits& limits);

// ResourceExhausted with a retry hint of about `retry_us`.
absl::Status Overloaded(const std::string& message, double retry_us);

// Unavailable: the server is shutting down.
absl::Status Closed();

}  // namespace nearfield::server

#endif  // NEARFIELD_SERVER_BATCHING_REFUSAL_H_
