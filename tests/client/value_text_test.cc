// Tests of times and decimals as text.
#include <bit>
#include <charconv>
#include <cmath>
#include <limits>
#include <random>

#include "client/value_text/decimal_text.h"
#include "client/value_text/timestamp_text.h"
#include "tests/client/prelude.h"
#include "tests/testing/seed.h"

namespace nearfield::client {
namespace {

using std::chrono::microseconds;
using std::chrono::sys_days;
using std::literals::operator""h;
using std::literals::operator""min;
using std::literals::operator""ms;
using std::literals::operator""us;
using std::literals::operator""y;

TEST(DecimalText, DoublesKeepEveryBit) {
  std::mt19937_64 random(testing::TestSeed());
  for (int round = 0; round < 20000; ++round) {
    const auto value = std::bit_cast<double>(random());
    if (std::isnan(value)) continue;
    char text[40];
    const auto written = std::to_chars(std::begin(text), std::end(text), value);
    const auto parsed = ParseDecimal({text, static_cast<size_t>(written.ptr - text)});
    ASSERT_TRUE(parsed.has_value()) << value;
    ASSERT_EQ(std::bit_cast<uint64_t>(*parsed), std::bit_cast<uint64_t>(value));
  }
}

TEST(DecimalText, FormsAndRefusals) {
  EXPECT_EQ(ParseDecimal("2"), 2.0);
  EXPECT_EQ(ParseDecimal("-1e9"), -1e9);
  EXPECT_EQ(ParseDecimal("inf"), std::numeric_limits<double>::infinity());
  EXPECT_EQ(ParseDecimal("1e-400"), 0.0);
  for (const std::string_view text :
       {"", "nan", "+2", "1e999", "-1e999", "0x10", "2x", "infinity", " 2", "2 "}) {
    EXPECT_EQ(ParseDecimal(text), std::nullopt) << text;
  }
}

TEST(TimestampText, PrintsAndReadsTheSameMicrosecond) {
  std::mt19937_64 random(testing::TestSeed());
  const Microseconds first = sys_days(0y / 1 / 1);
  const Microseconds last = sys_days(9999y / 12 / 31) + 24h - 1us;
  const auto span = static_cast<uint64_t>((last - first).count());
  for (int round = 0; round < 20000; ++round) {
    Microseconds time = first + microseconds(static_cast<int64_t>(random() % (span + 1)));
    if (round % 2 == 0) time = std::chrono::floor<std::chrono::seconds>(time);
    ASSERT_OK_AND_ASSIGN(const auto parsed, ParseTimestamp(TimestampText(time)));
    ASSERT_EQ(parsed, time) << TimestampText(time);
  }
  EXPECT_EQ(TimestampText(first), "0000-01-01T00:00:00Z");
  EXPECT_EQ(TimestampText(last), "9999-12-31T23:59:59.999999Z");
  EXPECT_FALSE(HasTimestampText(first - 1us));
  EXPECT_FALSE(HasTimestampText(last + 1us));
  EXPECT_EQ(TimestampText(Microseconds::max()), "9223372036854775807");
  EXPECT_EQ(TimestampText(Microseconds::min()), "-9223372036854775808");
}

TEST(TimestampText, FormsAndRefusals) {
  const Microseconds half_past_nine = sys_days(2024y / 5 / 17) + 9h + 30min;
  EXPECT_EQ(*ParseTimestamp("2024-05-17T09:30Z"), half_past_nine);
  EXPECT_EQ(*ParseTimestamp("2024-05-17T09:30:00Z"), half_past_nine);
  EXPECT_EQ(*ParseTimestamp("2024-05-17T09:30:00.000001Z"), half_past_nine + 1us);
  EXPECT_EQ(*ParseTimestamp("2024-05-17T09:30:00.5Z"), half_past_nine + 500ms);
  EXPECT_EQ(*ParseTimestamp("2024-02-29"), Microseconds(sys_days(2024y / 2 / 29)));
  for (const std::string_view same :
       {"2024-05-17T11:30:00+02:00", "2024-05-17T11:30+02:00", "2024-05-16T23:30:00.000-10:00",
        "2024-05-17t15:15:00.0+05:45", "2024-05-17T09:30:00+00:00", "2024-05-17T09:30:00z"}) {
    EXPECT_THAT(ParseTimestamp(same), IsOkAndHolds(half_past_nine)) << same;
  }
  EXPECT_THAT(ParseTimestamp("2024-05-17T09:30:00.500000000Z"),
              IsOkAndHolds(half_past_nine + 500ms));
  for (const std::string_view fine :
       {"2024-05-17T09:30:00.1234567Z", "2024-05-17T09:30:00.0000000000000000001Z"}) {
    EXPECT_THAT(ParseTimestamp(fine),
                StatusIs(kInvalidArgument, HasSubstr("finer than a microsecond")));
  }
  for (const std::string_view far : {"0000-01-01T00:00:00+02:00", "9999-12-31T23:59:59-02:00"}) {
    EXPECT_THAT(ParseTimestamp(far), StatusIs(kInvalidArgument, HasSubstr("years 0000 to 9999")));
  }
  for (const std::string_view local : {"2024-05-17T09:30:00", "2024-05-17T09:30:00.123456"}) {
    EXPECT_THAT(ParseTimestamp(local), StatusIs(kInvalidArgument, HasSubstr("no offset from UTC")));
  }
  for (const std::string_view text : {"",
                                      "2024",
                                      "2024-5-17",
                                      "2023-02-29",
                                      "2024-00-10",
                                      "2024-13-01",
                                      "2024-05-17T",
                                      "2024-05-17T09Z",
                                      "2024-05-17T24:00Z",
                                      "2024-05-17T09:60Z",
                                      "2024-05-17T23:59:60Z",
                                      "2024-05-17T23:59:60+01:00",
                                      "2024-05-17T09:30:00.Z",
                                      "2024-05-17 09:30:00Z",
                                      "2024-05-17Z",
                                      "-2024-05-17",
                                      " 2024-05-17",
                                      "2024-05-17 ",
                                      "2024-05-17T09:30:00Z ",
                                      "+024-05-17",
                                      "2024-05-17T9:30:00Z",
                                      "2024-05-17T09:30:00+25:00",
                                      "2024-05-17T09:30:5Z",
                                      "2024-05-17T09:30:00+0200",
                                      "2024-05-17T09:30:00+02",
                                      "2024-05-17T09:30:00+02:00:30",
                                      "2024-05-17T09:30.5Z",
                                      "infinite-future"}) {
    EXPECT_THAT(ParseTimestamp(text), StatusIs(kInvalidArgument, HasSubstr("is not a time")))
        << text;
  }
}

}  // namespace
}  // namespace nearfield::client
