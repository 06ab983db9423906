#include "client/value_text/timestamp_text.h"

#include <algorithm>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/string_view.h"
#include "absl/time/civil_time.h"
#include "absl/time/time.h"

namespace nearfield {
namespace {

constexpr int kYearMax = 9999;
constexpr int64_t kSecondUs = 1'000'000;
constexpr size_t kDateBytes = 10;
constexpr size_t kMinutesBytes = 16;  // to the minute
constexpr size_t kSecondsBytes = 19;
constexpr size_t kFractionDigitsMax = 6;

// Returns true if the text has this shape, in which 0 stands for any digit.
bool HasShape(std::string_view text, std::string_view shape) {
  return std::equal(text.begin(), text.end(), shape.begin(), shape.end(), [](char c, char wanted) {
    const auto byte = static_cast<unsigned char>(c);
    return wanted == '0' ? absl::ascii_isdigit(byte) : absl::ascii_toupper(byte) == wanted;
  });
}

// Returns the digits of the fraction of a second, in a text that has seconds.
std::string_view Fraction(std::string_view text) {
  if (text.size() <= kSecondsBytes || text[kSecondsBytes] != '.') return "";
  text.remove_prefix(kSecondsBytes + 1);
  return text.substr(0, text.find_first_not_of("0123456789"));
}

// Checks the shape of the text, where absl::ParseTime would also accept white space, signs, numbers
// of fewer digits and other forms of an offset.
bool IsShapedLikeTime(std::string_view text) {
  if (HasShape(text, "0000-00-00")) return true;
  if (!HasShape(text.substr(0, kMinutesBytes), "0000-00-00T00:00")) return false;
  std::string_view offset = text.substr(kMinutesBytes);
  if (HasShape(offset.substr(0, 3), ":00")) {
    const size_t digits = Fraction(text).size();
    offset.remove_prefix(3 + (digits > 0 ? digits + 1 : 0));
  }
  return HasShape(offset, "Z") || HasShape(offset, "+00:00") || HasShape(offset, "-00:00");
}

bool Parse(std::string_view text, absl::Time* time) {
  if (!IsShapedLikeTime(text)) return false;
  const absl::string_view given(text.data(), text.size());
  // absl moves the leap second 23:59:60 to the next day.
  if (text.substr(std::min(kMinutesBytes, text.size()), 3) == ":60") return false;
  return absl::ParseTime(absl::RFC3339_full, given, time, nullptr) ||
         absl::ParseTime("%Y-%m-%d%ET%H:%M%Ez", given, time, nullptr) ||
         absl::ParseTime("%Y-%m-%d", given, time, nullptr);
}

}  // namespace

absl::StatusOr<Microseconds> ParseTimestamp(std::string_view text) {
  absl::Time time;
  if (!Parse(text, &time)) {
    if (text.size() > kDateBytes && Parse(std::string(text) + "Z", &time)) {
      return absl::InvalidArgumentError(
          "has no offset from UTC: append Z for UTC, or an offset such as +02:00; in "
          "Python, datetime.now(timezone.utc).isoformat() has one");
    }
    return absl::InvalidArgumentError(
        "is not a time; write it as 2024-05-17 (UTC), 2024-05-17T09:30:00Z or "
        "2024-05-17T11:30:00.123456+02:00");
  }
  const std::string_view fraction = Fraction(text);
  if (fraction.find_first_not_of('0', std::min(fraction.size(), kFractionDigitsMax)) !=
      std::string_view::npos) {
    return absl::InvalidArgumentError(
        "is finer than a microsecond: write at most six digits of a second");
  }
  const Microseconds timestamp{std::chrono::microseconds(absl::ToUnixMicros(time))};
  if (!HasTimestampText(timestamp)) {
    return absl::InvalidArgumentError("is not in the years 0000 to 9999 of UTC");
  }
  return timestamp;
}

bool HasTimestampText(Microseconds time) {
  const absl::Time instant = absl::FromUnixMicros(time.time_since_epoch().count());
  const absl::civil_year_t year = absl::ToCivilYear(instant, absl::UTCTimeZone()).year();
  return year >= 0 && year <= kYearMax;
}

std::string TimestampText(Microseconds time) {
  const int64_t us = time.time_since_epoch().count();
  if (!HasTimestampText(time)) return std::to_string(us);
  const char* format = us % kSecondUs == 0 ? "%E4Y-%m-%dT%H:%M:%SZ" : "%E4Y-%m-%dT%H:%M:%E6SZ";
  return absl::FormatTime(format, absl::FromUnixMicros(us), absl::UTCTimeZone());
}

}  // namespace nearfield
