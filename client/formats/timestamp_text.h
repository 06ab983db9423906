// Times as text: ISO 8601, UTC, to the microsecond.
#ifndef NEARFIELD_CLIENT_FORMATS_TIMESTAMP_TEXT_H_
#define NEARFIELD_CLIENT_FORMATS_TIMESTAMP_TEXT_H_

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "nearfield/client/attributes.h"

namespace nearfield::client {

// "2024-05-17", "2024-05-17T09:30Z", "2024-05-17T09:30:00Z", "2024-05-17T09:30:00.25Z": years 0000
// to 9999 of the Gregorian calendar, at most six digits behind the second, no leap second; a time
// of day must say that it is UTC ("Z"). Errors: InvalidArgument.
absl::StatusOr<Timestamp> ParseTimestamp(std::string_view text);

// "2024-05-17T09:30:00Z", with six digits behind the second where there is a fraction, which
// ParseTimestamp reads back; outside the years 0000 to 9999 the microseconds since 1970 as a
// number.
std::string TimestampText(Timestamp time);
bool HasTimestampText(Timestamp time);  // false: a number

}  // namespace nearfield::client

#endif  // NEARFIELD_CLIENT_FORMATS_TIMESTAMP_TEXT_H_
