#include "client/formats/timestamp_text.h"

#include <chrono>
#include <cstdint>

#include "absl/strings/str_format.h"
#include "client/formats/json_text.h"
#include "client/formats/text.h"

namespace nearfield::client {
namespace {

using std::chrono::days;
using std::chrono::microseconds;

constexpr int kYearMax = 9999;
constexpr int kFractionDigitsMax = 6;

// Removes recognized tokens from the front of a text.
class Scanner {
 public:
  explicit Scanner(std::string_view text) : rest_(text) {}

  bool done() const { return rest_.empty(); }
  bool Take(char c) {
    if (rest_.empty() || rest_.front() != c) return false;
    rest_.remove_prefix(1);
    return true;
  }
  // Takes exactly `count` digits.
  bool TakeDigits(size_t count, int* number) {
    if (rest_.size() < count) return false;
    *number = 0;
    for (size_t i = 0; i < count; ++i) {
      if (!IsDigit(rest_[i])) return false;
      *number = *number * 10 + (rest_[i] - '0');
    }
    rest_.remove_prefix(count);
    return true;
  }
  // Takes one to six digits, as millionths.
  bool TakeMillionths(int* number) {
    *number = 0;
    int digits = 0;
    while (!rest_.empty() && IsDigit(rest_.front()) && digits < kFractionDigitsMax) {
      *number = *number * 10 + (rest_.front() - '0');
      rest_.remove_prefix(1);
      ++digits;
    }
    for (int i = digits; i < kFractionDigitsMax; ++i) *number *= 10;
    return digits > 0;
  }

 private:
  static bool IsDigit(char c) { return c >= '0' && c <= '9'; }

  std::string_view rest_;
};

struct Clock {
  int hour = 0;
  int minute = 0;
  int second = 0;
  int millionths = 0;
};

// Takes "T09:30:00.25Z".
bool TakeClock(Scanner* text, Clock* clock) {
  if (!text->Take('T') || !text->TakeDigits(2, &clock->hour) || !text->Take(':') ||
      !text->TakeDigits(2, &clock->minute)) {
    return false;
  }
  if (text->Take(':')) {
    if (!text->TakeDigits(2, &clock->second)) return false;
    if (text->Take('.') && !text->TakeMillionths(&clock->millionths)) return false;
  }
  return text->Take('Z') && text->done() && clock->hour < 24 && clock->minute < 60 &&
         clock->second < 60;
}

}  // namespace

absl::StatusOr<Timestamp> ParseTimestamp(std::string_view text) {
  Scanner scanner(text);
  int year = 0;
  int month = 0;
  int day = 0;
  Clock clock;
  const bool dated = scanner.TakeDigits(4, &year) && scanner.Take('-') &&
                     scanner.TakeDigits(2, &month) && scanner.Take('-') &&
                     scanner.TakeDigits(2, &day);
  const std::chrono::year_month_day date(std::chrono::year(year),
                                         std::chrono::month(static_cast<unsigned>(month)),
                                         std::chrono::day(static_cast<unsigned>(day)));
  if (!dated || !date.ok() || !(scanner.done() || TakeClock(&scanner, &clock))) {
    return absl::InvalidArgumentError(
        Cat(QuoteJson(text.substr(0, 60)),
            " is no time in UTC; write it as 2024-05-17, 2024-05-17T09:30:00Z or "
            "2024-05-17T09:30:00.123456Z"));
  }
  return Timestamp(std::chrono::sys_days(date)) + std::chrono::hours(clock.hour) +
         std::chrono::minutes(clock.minute) + std::chrono::seconds(clock.second) +
         microseconds(clock.millionths);
}

bool HasTimestampText(Timestamp time) {
  // Compared as days, because std::chrono's years end at 32767.
  const auto day = std::chrono::floor<days>(time);
  return day >= std::chrono::sys_days(std::chrono::year(0) / 1 / 1) &&
         day <= std::chrono::sys_days(std::chrono::year(kYearMax) / 12 / 31);
}

std::string TimestampText(Timestamp time) {
  if (!HasTimestampText(time)) return std::to_string(time.time_since_epoch().count());
  const auto day = std::chrono::floor<days>(time);
  const std::chrono::year_month_day date(day);
  const int64_t us = (time - day).count();
  std::string text =
      absl::StrFormat("%04d-%02d-%02dT%02d:%02d:%02d", static_cast<int>(date.year()),
                      static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()),
                      us / 3'600'000'000, us / 60'000'000 % 60, us / 1'000'000 % 60);
  if (us % 1'000'000 != 0) absl::StrAppendFormat(&text, ".%06d", us % 1'000'000);
  return text + "Z";
}

}  // namespace nearfield::client
