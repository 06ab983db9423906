// The errors with which the queue refuses searches, and their retry hints.
#pragma once

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "server/scheduler/clock.h"
#include "server/scheduler/forecast.h"

namespace nearfield::server {

struct LatenessLimits {
  TimePoint now;
  std::optional<TimePoint> deadline;
  double wait_us_max = 0;  // applies to searches with any deadline
};

// Returns ResourceExhausted if the forecast exceeds a limit. The error names both. Its retry hint
// is the time after which the search would be admitted if no other search came.
absl::Status CheckLateness(const Forecast& forecast, const LatenessLimits& limits);

// Returns ResourceExhausted with a retry hint of about `retry_us`.
absl::Status Overloaded(const std::string& message, double retry_us);

// Returns Unavailable: the server is shutting down.
absl::Status Closed();

}  // namespace nearfield::server
