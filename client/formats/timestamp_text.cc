#include "client/formats/timestamp_text.h"

#include <algorithm>
#include <cstdint>

#include "absl/strings/ascii.h"
#include "absl/time/civil_time.h"
#include "absl/time/time.h"
#include "client/formats/json_text.h"
#include "client/formats/text.h"

namespace nearfield::client {
namespace {

constexpr int kYearMax = 9999;
constexpr int64_t kSecondUs = 1'000'000;
constexpr size_t kDateBytes = 10;

// Checks the fixed part of the text, where absl::ParseTime would also accept white space, signs and
// numbers of fewer digits.
bool BeginsLikeTime(std::string_view text) {
  constexpr std::string_view kShape = "0000-00-00T00:00";
  if (text.size() != kDateBytes && text.size() < kShape.size()) return false;
  for (size_t i = 0; i < std::min(text.size(), kShape.size()); ++i) {
    const auto c = static_cast<unsigned char>(text[i]);
    if (kShape[i] == '0' ? !absl::ascii_isdigit(c) : absl::ascii_toupper(c) != kShape[i]) {
      return false;
    }
  }
  return !absl::ascii_isspace(static_cast<unsigned char>(text.back()));
}

bool Parse(std::string_view text, absl::Time* time) {
  if (!BeginsLikeTime(text)) return false;
  const absl::string_view given(text.data(), text.size());
  // absl moves the leap second 23:59:60 to the next day.
  if (text.substr(std::min(kDateBytes + 6, text.size()), 3) == ":60") return false;
  return absl::ParseTime(absl::RFC3339_full, given, time, nullptr) ||
         absl::ParseTime("%Y-%m-%d%ET%H:%M%Ez", given, time, nullptr) ||
         absl::ParseTime("%Y-%m-%d", given, time, nullptr);
}

absl::Status Refused(std::string_view text, std::string_view reason) {
  return absl::InvalidArgumentError(Cat(QuoteJson(text.substr(0, 60)), reason));
}

}  // namespace

absl::StatusOr<Timestamp> ParseTimestamp(std::string_view text) {
  absl::Time time;
  if (!Parse(text, &time)) {
    if (text.size() > kDateBytes && Parse(Cat(text, "Z"), &time)) {
      return Refused(text,
                     " has no offset from UTC: append Z for UTC, or an offset such as +02:00; in "
                     "Python, datetime.now(timezone.utc).isoformat() has one");
    }
    return Refused(text,
                   " is not a time; write it as 2024-05-17 (UTC), 2024-05-17T09:30:00Z or "
                   "2024-05-17T11:30:00.123456+02:00");
  }
  const int64_t us = absl::ToUnixMicros(time);
  if (absl::FromUnixMicros(us) != time) {
    return Refused(text, " is finer than a microsecond: write at most six digits of a second");
  }
  return Timestamp(std::chrono::microseconds(us));
}

bool HasTimestampText(Timestamp time) {
  const absl::Time instant = absl::FromUnixMicros(time.time_since_epoch().count());
  const absl::civil_year_t year = absl::ToCivilYear(instant, absl::UTCTimeZone()).year();
  return year >= 0 && year <= kYearMax;
}

std::string TimestampText(Timestamp time) {
  const int64_t us = time.time_since_epoch().count();
  if (!HasTimestampText(time)) return std::to_string(us);
  const char* format = us % kSecondUs == 0 ? "%E4Y-%m-%dT%H:%M:%SZ" : "%E4Y-%m-%dT%H:%M:%E6SZ";
  return absl::FormatTime(format, absl::FromUnixMicros(us), absl::UTCTimeZone());
}

}  // namespace nearfield::client
