#include "client/formats/filter_text.h"

#include <bit>
#include <cmath>
#include <limits>
#include <random>

#include "client/formats/timestamp_text.h"
#include "tests/client/prelude.h"
#include "tests/client/random_filter.h"
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

const std::vector<AttributeSpec>& Attributes() { return EveryAttribute(); }

absl::StatusOr<Filter> Parse(std::string_view text, IdType id_type = IdType::kUint64) {
  return ParseFilter(text, {.attributes = Attributes(), .id_type = id_type});
}

TEST(FilterText, EachConditionIsReadAsWhatItSays) {
  const std::pair<std::string_view, Filter> cases[] = {
      {"year == 2020", Filter::Equal("year", 2020)},
      {"year != -9223372036854775808",
       Filter::NotEqual("year", std::numeric_limits<int64_t>::min())},
      {"price<2.5", Filter::Less("price", 2.5)},
      {"price <= 2", Filter::LessEqual("price", 2.0)},
      {"price > -1e9", Filter::Greater("price", -1e9)},
      {"price >= -inf", Filter::GreaterEqual("price", -std::numeric_limits<double>::infinity())},
      {"price == 1e-400", Filter::Equal("price", 0.0)},
      {"good == true", Filter::Equal("good", true)},
      {"good in (true, false)", Filter::In("good", {true, false})},
      {"language == \"de\"", Filter::Equal("language", "de")},
      {"language == ''", Filter::Equal("language", "")},
      {"language == 'it\\'s \"x\" \\u00e9\\n'", Filter::Equal("language", "it's \"x\" \u00e9\n")},
      {"language == \"'\\\"\"", Filter::Equal("language", "'\"")},
      {"language in('de',\"en\")", Filter::In("language", {"de", "en"})},
      {"tags any (\"a\")", Filter::ListAny("tags", {"a"})},
      {"tags all ('a', 'b')", Filter::ListAll("tags", {"a", "b"})},
      {"made < \"2024-05-17\"", Filter::Less("made", sys_days(2024y / 5 / 17))},
      {"made < 1715938200000000", Filter::Less("made", Timestamp(microseconds(1715938200000000)))},
      {"made >= '1969-12-31T23:59:59.5Z'",
       Filter::GreaterEqual("made", Timestamp(microseconds(-500000)))},
      {"exists ( tags )", Filter::Exists("tags")},
      {"id in (1, 2)", Filter::HasId(std::vector<uint64_t>{1, 2})},
      {"id == 18446744073709551615", Filter::HasId(std::vector<uint64_t>{~uint64_t{0}})},
      {"`id` == 7", Filter::Equal("id", 7)},
      {"exists(`not`)", Filter::Exists("not")},
      {"not exists(year)", Filter::Not(Filter::Exists("year"))},
      {"not not exists(year)", Filter::Not(Filter::Not(Filter::Exists("year")))},
      {"((year == 1))", Filter::Equal("year", 1)},
  };
  for (const auto& [text, filter] : cases) {
    const auto parsed = Parse(text);
    ASSERT_OK(parsed) << text;
    EXPECT_EQ(*parsed, filter) << text << " was read as " << FilterText(*parsed);
  }
  EXPECT_EQ(*Parse("id in ('a', \"b\")", IdType::kString),
            Filter::HasId(std::vector<std::string>{"a", "b"}));
}

TEST(FilterText, NotBindsCloserThanAndAndAndCloserThanOr) {
  const Filter a = Filter::Exists("year");
  const Filter b = Filter::Exists("price");
  const Filter c = Filter::Exists("tags");
  const std::string text = "exists(year) or not exists(price) and exists(tags)";
  EXPECT_EQ(*Parse(text), Filter::Or({a, Filter::And({Filter::Not(b), c})}));
  EXPECT_EQ(*Parse("(exists(year) or not exists(price)) and exists(tags)"),
            Filter::And({Filter::Or({a, Filter::Not(b)}), c}));
  EXPECT_EQ(*Parse("not (exists(year) or exists(price)) and exists(tags)"),
            Filter::And({Filter::Not(Filter::Or({a, b})), c}));
  EXPECT_EQ(*Parse("exists(year) and exists(price) and exists(tags)"), Filter::And({a, b, c}));
  EXPECT_EQ(*Parse("exists(year) and (exists(price) and exists(tags))"),
            Filter::And({a, Filter::And({b, c})}));
}

TEST(FilterText, ErrorsPointAtTheColumn) {
  const std::tuple<std::string_view, int, std::string_view> cases[] = {
      {"", 1, "a filter is expected"},
      {"  ", 3, "a filter is expected"},
      {"yeer == 2020", 1, "declares no attribute \"yeer\"; it declares year:int64"},
      {"year = 2020", 6, "write =="},
      {"year == ", 9, "expected a value of year, an int64, such as 2020"},
      {"year == \"2020\"", 9, "an int64"},
      {"year == 20.5", 9, "\"20.5\" is not a whole number"},
      {"year == 9223372036854775808", 9, "not a whole number"},
      {"year == 20x", 9, "not a whole number"},
      {"year == +7", 9, "not a whole number"},
      {"price == nan", 10, "not a number that a double can hold"},
      {"price == 1e999", 10, "not a number that a double can hold"},
      {"price == 0x10", 10, "not a number that a double can hold"},
      {"good > true", 6, "bools have no order"},
      {"good == yes", 9, "neither true nor false"},
      {"language == de", 13, "such as \"de\""},
      {"language == \"de", 13, "not closed"},
      {"language == \"\\x\"", 13, "as JSON spells it"},
      {"language == \"\xff\"", 13, "UTF-8"},
      {"language == \"\u00e9\u00e9\" or year", 25, "expected =="},
      {"made < \"17.5.2024\"", 8, "is not a time"},
      {"made < \"2024-05-17T09:30:00\"", 8, "has no offset from UTC: append Z"},
      {"made < \"2024-02-30\"", 8, "is not a time"},
      {"made < \"123\"", 8, "is not a time"},
      {"tags == \"a\"", 6, "tags is a list"},
      {"tags in (\"a\")", 6, "tags is a list"},
      {"tags", 5, "any or all"},
      {"language any (\"a\")", 10, "language is not a list"},
      {"year in ()", 10, "expected a value"},
      {"year in (1 2)", 12, "expected )"},
      {"year in 1", 9, "expected ("},
      {"exists year", 8, "expected ("},
      {"exists(yeer)", 8, "declares no attribute"},
      {"id < 3", 4, "expected == or in"},
      {"id in (1, 'a')", 11, "a whole number"},
      {"id in (-1)", 8, "not a whole number from 0 to"},
      {"(year == 1", 11, "expected )"},
      {"year == 1)", 10, "expected \"and\", \"or\" or the end"},
      {"year == 1 year == 2", 11, "expected \"and\", \"or\" or the end"},
      {"year == 1 and", 14, "a condition is expected"},
      {"and year == 1", 1, "stands in backquotes"},
      {"year == 1 & price == 2", 11, "unexpected \"&\""},
      {"`year == 1", 1, "backquote is not closed"},
      {"2020 == year", 1, "a condition is expected"},
  };
  for (const auto& [text, column, reason] : cases) {
    EXPECT_THAT(Parse(text), StatusIs(kInvalidArgument,
                                      AllOf(StartsWith("column " + std::to_string(column) + ": "),
                                            HasSubstr(std::string(reason)))))
        << text;
  }
  EXPECT_THAT(Parse("id == 1", IdType::kString),
              StatusIs(kInvalidArgument, HasSubstr("a text in quotes")));
  EXPECT_THAT(ParseFilter("x == 1", {}), StatusIs(kInvalidArgument, HasSubstr("it declares none")));
}

// Enough brackets to exhaust the stack of a parser without a bound.
TEST(FilterText, DepthIsBounded) {
  const std::string open(1 << 20, '(');
  EXPECT_THAT(Parse(open),
              StatusIs(kInvalidArgument, HasSubstr("column 65: more than 64 brackets")));
  std::string nots;
  for (int i = 0; i < 1 << 18; ++i) nots += "not ";
  EXPECT_THAT(Parse(nots + "exists(year)"), StatusIs(kInvalidArgument, HasSubstr("more than 64")));
  const auto levels = [](size_t count) {
    std::string text;
    for (size_t i = 1; i < count; ++i) text += "not ";
    return Parse(text + "exists(year)");
  };
  EXPECT_OK(levels(kFilterLevelsMax));
  EXPECT_THAT(levels(kFilterLevelsMax + 1),
              StatusIs(kInvalidArgument, HasSubstr("at most 8 levels")));
  EXPECT_OK(Parse(std::string(60, '(') + "exists(year)" + std::string(60, ')')));
}

TEST(FilterText, AnyTreePrintsAsATextThatReadsAsAnEqualTree) {
  std::mt19937_64 random(testing::TestSeed());
  for (int round = 0; round < 5000; ++round) {
    const IdType id_type = random() % 2 == 0 ? IdType::kUint64 : IdType::kString;
    const Filter tree = RandomFilter(random, id_type);
    const std::string text = FilterText(tree);
    const auto parsed = Parse(text, id_type);
    ASSERT_OK(parsed) << text;
    ASSERT_EQ(*parsed, tree) << text;
    ASSERT_EQ(FilterText(*parsed), text);
  }
}

// The text form can only express an `and` of two or more operands.
TEST(FilterText, AnAndOfOneIsReadAsThatOne) {
  const Filter one = Filter::Exists("year");
  EXPECT_EQ(FilterText(Filter::And({Filter::Or({one})})), "exists(year)");
  EXPECT_EQ(FilterText(Filter::Not(Filter::And({Filter::Or({one, one})}))),
            "not (exists(year) or exists(year))");
}

TEST(FilterText, DoublesKeepEveryBit) {
  std::mt19937_64 random(testing::TestSeed());
  for (int round = 0; round < 20000; ++round) {
    const auto value = std::bit_cast<double>(random());
    if (std::isnan(value)) continue;
    ASSERT_OK_AND_ASSIGN(const auto parsed, Parse(FilterText(Filter::Equal("price", value))));
    const auto& variant = parsed.values().front().variant();
    ASSERT_EQ(std::bit_cast<uint64_t>(std::get<double>(variant)), std::bit_cast<uint64_t>(value));
  }
}

TEST(TimestampText, PrintsAndReadsTheSameMicrosecond) {
  std::mt19937_64 random(testing::TestSeed());
  const Timestamp first = sys_days(0y / 1 / 1);
  const Timestamp last = sys_days(9999y / 12 / 31) + 24h - 1us;
  const auto span = static_cast<uint64_t>((last - first).count());
  for (int round = 0; round < 20000; ++round) {
    Timestamp time = first + microseconds(static_cast<int64_t>(random() % (span + 1)));
    if (round % 2 == 0) time = std::chrono::floor<std::chrono::seconds>(time);
    ASSERT_OK_AND_ASSIGN(const auto parsed, ParseTimestamp(TimestampText(time)));
    ASSERT_EQ(parsed, time) << TimestampText(time);
  }
  EXPECT_EQ(TimestampText(first), "0000-01-01T00:00:00Z");
  EXPECT_EQ(TimestampText(last), "9999-12-31T23:59:59.999999Z");
  EXPECT_FALSE(HasTimestampText(first - 1us));
  EXPECT_FALSE(HasTimestampText(last + 1us));
  EXPECT_EQ(TimestampText(Timestamp::max()), "9223372036854775807");
  EXPECT_EQ(TimestampText(Timestamp::min()), "-9223372036854775808");
}

TEST(TimestampText, FormsAndRefusals) {
  const Timestamp half_past_nine = sys_days(2024y / 5 / 17) + 9h + 30min;
  EXPECT_EQ(*ParseTimestamp("2024-05-17T09:30Z"), half_past_nine);
  EXPECT_EQ(*ParseTimestamp("2024-05-17T09:30:00Z"), half_past_nine);
  EXPECT_EQ(*ParseTimestamp("2024-05-17T09:30:00.000001Z"), half_past_nine + 1us);
  EXPECT_EQ(*ParseTimestamp("2024-05-17T09:30:00.5Z"), half_past_nine + 500ms);
  EXPECT_EQ(*ParseTimestamp("2024-02-29"), Timestamp(sys_days(2024y / 2 / 29)));
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
