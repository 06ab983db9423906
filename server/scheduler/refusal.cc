#include "server/scheduler/refusal.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "server/scheduler/retry_hint.h"
#include "server/telemetry/refusal_reason.h"

namespace nearfield::server {
namespace {

constexpr double kRetryMsMin = 10;
constexpr double kRetryMsMax = 5000;
constexpr int64_t kClosedRetryMs = 1000;

// Formats microseconds as "0.4 ms" or "120 ms".
std::string Millis(double us) {
  const double ms = us / 1000;
  return absl::StrCat(ms < 10 ? std::round(ms * 10) / 10 : std::round(ms), " ms");
}

}  // namespace

absl::Status CheckLateness(const Forecast& forecast, const LatenessLimits& limits) {
  double late_us = forecast.wait_us - limits.wait_us_max;
  std::string why;
  const char* reason = "queue_ms_max";
  if (late_us > 0) {
    why = absl::StrCat(", the limit queue_ms_max is ", Millis(limits.wait_us_max),
                       ": come back later");
  } else if (limits.deadline.has_value()) {
    const double left_us = ExactMicrosBetween(limits.now, *limits.deadline);
    late_us = forecast.total_us() - left_us;
    if (late_us > 0) {
      reason = "deadline";
      why = absl::StrCat(" and take ", Millis(forecast.pass_us), ", its deadline is in ",
                         Millis(left_us),
                         ": come back later, allow it more time, or send fewer queries a request");
    }
  }
  if (why.empty()) return absl::OkStatus();
  return WithReason(
      Overloaded(absl::StrCat("the search would wait about ", Millis(forecast.wait_us), why),
                 late_us),
      reason);
}

absl::Status Overloaded(const std::string& message, double retry_us) {
  const double retry_ms = std::clamp(std::ceil(retry_us / 1000), kRetryMsMin, kRetryMsMax);
  return ExhaustedFor(static_cast<int64_t>(retry_ms), message);
}

absl::Status Closed() {
  return WithReason(
      WithRetryAfter(absl::UnavailableError("the server is shutting down"), kClosedRetryMs),
      "draining");
}

}  // namespace nearfield::server
