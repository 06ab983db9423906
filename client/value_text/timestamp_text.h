// Timestamps as text: RFC 3339, with microseconds.
#pragma once

#include <chrono>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace nearfield {

// A time in UTC, to the microsecond.
using Microseconds = std::chrono::sys_time<std::chrono::microseconds>;

// Parses "2024-05-17" (UTC), "2024-05-17T09:30Z", "2024-05-17T09:30:00.25Z",
// "2024-05-17T11:30:00+02:00": years 0000 to 9999 of the Gregorian calendar in UTC, no finer
// than a microsecond, no leap second. A time of day must have an offset from UTC: Z, or +02:00.
// Errors: InvalidArgument; the message continues a sentence that begins with the text: "is not a
// time; ...".
absl::StatusOr<Microseconds> ParseTimestamp(std::string_view text);

// Returns "2024-05-17T09:30:00Z", with six digits after the decimal point if there is a fraction;
// ParseTimestamp reads it back. Outside the years 0000 to 9999, returns the microseconds since 1970
// as a number.
std::string TimestampText(Microseconds time);
bool HasTimestampText(Microseconds time);  // false: a number

}  // namespace nearfield
