// Tests of filters as text: what each condition means, where errors point, every limit, and laws on
// random filters.
#include "server/attributes/filter_text.h"

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "engine/base/argument_error.h"
#include "server/attributes/filter.h"
#include "tests/server/attributes/attribute_rows.h"
#include "tests/server/attributes/filter_maker.h"
#include "tests/server/attributes/filter_printer.h"
#include "tests/server/prelude.h"
#include "tests/testing/seed.h"

namespace nearfield::server {
namespace {

using testing::Random;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// One attribute of each type, a list, and names that are words of the grammar.
const AttributeSchema& TextSchema() {
  static const auto* const schema = new AttributeSchema(
      *AttributeSchema::Create({{.name = "year"},
                                {.name = "price", .type = AttributeType::kDouble},
                                {.name = "good", .type = AttributeType::kBool},
                                {.name = "language", .type = AttributeType::kKeyword},
                                {.name = "made", .type = AttributeType::kTimestamp},
                                {.name = "tags", .type = AttributeType::kKeyword, .is_list = true},
                                {.name = "id"},
                                {.name = "not", .type = AttributeType::kKeyword}},
                               {}));
  return *schema;
}

absl::StatusOr<FilterTree> Parse(std::string_view text, IdType id_type = IdType::kUint64,
                                 const std::vector<FilterArgument>& arguments = {}) {
  return ParseFilterText(text, arguments, id_type, TextSchema(), {});
}

auto RefusedAt(int64_t column, const std::string& reason) {
  return StatusIs(
      kInvalidArgument,
      AllOf(StartsWith("filter_text: column " + std::to_string(column) + ": "), HasSubstr(reason)));
}

IdColumn Strings(const std::vector<std::string>& texts) {
  IdColumn ids(IdType::kString);
  for (const std::string& text : texts) ids.AppendString(text);
  return ids;
}
ValueColumn Times(std::vector<int64_t> us) {
  return Integers(std::move(us), AttributeType::kTimestamp);
}

TEST(FilterText, EachConditionIsReadAsWhatItSays) {
  using enum Comparison;
  constexpr auto kIn = ConditionKind::kIn;
  constexpr auto kAny = ConditionKind::kListAny;
  constexpr auto kAll = ConditionKind::kListAll;
  const std::pair<std::string_view, FilterTree> cases[] = {
      {"year == 2020", Compare("year", kEqual, Integers({2020}))},
      {"year != -9223372036854775808", Compare("year", kNotEqual, Integers({INT64_MIN}))},
      {"price<2.5", Compare("price", kLess, Doubles({2.5}))},
      {"price <= 2", Compare("price", kLessEqual, Doubles({2.0}))},
      {"price > -1e9", Compare("price", kGreater, Doubles({-1e9}))},
      {"price >= -inf", Compare("price", kGreaterEqual, Doubles({-kInfinity}))},
      {"price == 1e-400", Compare("price", kEqual, Doubles({0.0}))},
      {"good == true", Compare("good", kEqual, Bools({true}))},
      {"good in (true, false)", OfValues(kIn, "good", Bools({true, false}))},
      {"language == \"de\"", Compare("language", kEqual, Keywords({"de"}))},
      {"language == ''", Compare("language", kEqual, Keywords({""}))},
      {"language == 'it\\'s \"x\" \\u00e9\\n'",
       Compare("language", kEqual, Keywords({"it's \"x\" \u00e9\n"}))},
      {"language == \"'\\\"\"", Compare("language", kEqual, Keywords({"'\""}))},
      {"language == '\\u0000'", Compare("language", kEqual, Keywords({std::string(1, '\0')}))},
      {"language in('de',\"en\")", OfValues(kIn, "language", Keywords({"de", "en"}))},
      {"tags any (\"a\")", OfValues(kAny, "tags", Keywords({"a"}))},
      {"language any ('a')", OfValues(kIn, "language", Keywords({"a"}))},
      {"tags all ('a', 'b')", OfValues(kAll, "tags", Keywords({"a", "b"}))},
      {"made < \"2024-05-17\"", Compare("made", kLess, Times({1715904000000000}))},
      {"made < \"2024-05-17T11:30:00+02:00\"", Compare("made", kLess, Times({1715938200000000}))},
      {"made < 1715938200000000", Compare("made", kLess, Times({1715938200000000}))},
      {"made >= '1969-12-31T23:59:59.5Z'", Compare("made", kGreaterEqual, Times({-500000}))},
      {"exists ( tags )", Exists("tags")},
      {"id in (1, 2)", HasId(IdColumn::OfNumbers({1, 2}))},
      {"id == 18446744073709551615", HasId(IdColumn::OfNumbers({UINT64_MAX}))},
      {"`id` == 7", Compare("id", kEqual, Integers({7}))},
      {"exists(`not`)", Exists("not")},
      {"not exists(year)", Not(Exists("year"))},
      {"not not exists(year)", Not(Not(Exists("year")))},
      {" ((year\t==\n1)) ", Compare("year", kEqual, Integers({1}))},
  };
  for (const auto& [text, filter] : cases) {
    const auto parsed = Parse(text);
    ASSERT_OK(parsed) << text;
    EXPECT_EQ(CanonicalBytes(*parsed), CanonicalBytes(filter))
        << text << " was read as " << TextOf(*parsed);
  }
  const auto strings = Parse("id in ('a', \"b\")", IdType::kString);
  ASSERT_OK(strings);
  EXPECT_EQ(CanonicalBytes(*strings), CanonicalBytes(HasId(Strings({"a", "b"}))));
}

TEST(FilterText, NotBindsCloserThanAndAndAndCloserThanOr) {
  const FilterTree a = Exists("year");
  const FilterTree b = Exists("price");
  const FilterTree c = Exists("tags");
  const std::pair<std::string_view, FilterTree> cases[] = {
      {"exists(year) or not exists(price) and exists(tags)", Or({a, And({Not(b), c})})},
      {"(exists(year) or not exists(price)) and exists(tags)", And({Or({a, Not(b)}), c})},
      {"not (exists(year) or exists(price)) and exists(tags)", And({Not(Or({a, b})), c})},
      {"exists(year) and exists(price) and exists(tags)", And({a, b, c})},
      {"exists(year) and (exists(price) and exists(tags))", And({a, And({b, c})})}};
  for (const auto& [text, filter] : cases) {
    ASSERT_OK_AND_ASSIGN(const auto parsed, Parse(text));
    EXPECT_EQ(CanonicalBytes(parsed), CanonicalBytes(filter)) << text;
  }
}

TEST(FilterText, ErrorsPointAtTheColumn) {
  const std::tuple<std::string_view, int, std::string_view> cases[] = {
      {"", 1, "a filter is expected"},
      {"  ", 3, "a filter is expected"},
      {"yeer == 2020", 1, "declares no attribute \"yeer\"; it declares year:int64, price:double"},
      {"`a\u00e9` == 1", 1, "declares no attribute \"a\\xc3\\xa9\""},
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
      {"language == \"\\ud800\"", 13, "as JSON spells it"},
      {"language == \"\xff\"", 13, "UTF-8"},
      {"language == \"\u00e9\u00e9\" or year", 25, "expected =="},
      {"language == \u201cde\u201d", 13, "not ASCII"},
      {"made < \"17.5.2024\"", 8, "\"17.5.2024\" is not a time"},
      {"made < \"2024-05-17T09:30:00\"", 8, "has no offset from UTC: append Z"},
      {"made < \"2024-02-30\"", 8, "is not a time"},
      {"made < \"123\"", 8, "is not a time"},
      {"tags == \"a\"", 6, "tags is a list"},
      {"tags in (\"a\")", 6, "tags is a list"},
      {"tags", 5, "any or all"},
      {"language all (\"a\")", 10, "language is not a list"},
      {"`a``b` == 1", 1, "declares no attribute \"a`b\""},
      {"year in ()", 10, "expected a value"},
      {"year in (1 2)", 12, "expected )"},
      {"year in 1", 9, "expected ("},
      {"exists year", 8, "expected ("},
      {"exists(yeer)", 8, "declares no attribute"},
      {"id < 3", 4, "expected == or in"},
      {"id in (1, 'a')", 11, "a whole number"},
      {"id in (-1)", 8, "\"-1\" is not a whole number from 0 to"},
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
    const auto parsed = Parse(text);
    EXPECT_THAT(parsed, RefusedAt(column, std::string(reason))) << text;
    EXPECT_EQ(ArgumentFactsOf(parsed.status()).field, "filter_text");
  }
  EXPECT_THAT(Parse("id == 1", IdType::kString), RefusedAt(7, "a text in quotes"));
  EXPECT_THAT(ParseFilterText("x == 1", {}, IdType::kUint64, {}, {}),
              RefusedAt(1, "it declares none"));
  std::vector<AttributeSpec> many;
  for (int i = 0; i < 64; ++i)
    many.push_back({.name = "a" + std::to_string(i) + std::string(50, 'x')});
  const auto unknown =
      ParseFilterText("x == 1", {}, IdType::kUint64, *AttributeSchema::Create(many, {}), {});
  EXPECT_THAT(unknown, RefusedAt(1, " more"));
  EXPECT_LT(unknown.status().message().size(), 800u) << "the errors of a call have 1,024 bytes";
}

FilterArgument Ids(const std::vector<uint64_t>& numbers) { return IdColumn::OfNumbers(numbers); }

TEST(FilterTextArguments, AnArgumentIsAValueOrAList) {
  using enum Comparison;
  constexpr auto kIn = ConditionKind::kIn;
  const std::tuple<std::string_view, std::vector<FilterArgument>, FilterTree> cases[] = {
      {"year >= $1", {Integers({2020})}, Compare("year", kGreaterEqual, Integers({2020}))},
      {"price == $1", {Integers({2})}, Compare("price", kEqual, Doubles({2}))},
      {"price == $1", {Integers({INT64_MIN})}, Compare("price", kEqual, Doubles({-0x1p63}))},
      {"made == $1", {Integers({7})}, Compare("made", kEqual, Times({7}))},
      {"made == $1", {Keywords({"1970-01-01"})}, Compare("made", kEqual, Times({0}))},
      {"good != $1", {Bools({true})}, Compare("good", kNotEqual, Bools({true}))},
      {"language in $1", {Keywords({"a", "b"})}, OfValues(kIn, "language", Keywords({"a", "b"}))},
      {"language in ('a', $1)", {Keywords({"b"})}, OfValues(kIn, "language", Keywords({"a", "b"}))},
      {"language in $1", {Integers({})}, OfValues(kIn, "language", Keywords({}))},
      {"tags any $1", {Keywords({})}, OfValues(ConditionKind::kListAny, "tags", Keywords({}))},
      {"tags all $1", {Keywords({})}, Exists("tags")},
      {"id in $1", {Ids({3, UINT64_MAX})}, HasId(IdColumn::OfNumbers({3, UINT64_MAX}))},
      {"id in $1", {Ids({})}, HasId(IdColumn())},
      {"id == $1", {Integers({3})}, HasId(IdColumn::OfNumbers({3}))},
      {"year == $2 and price == $1 and year != $2",
       {Doubles({1}), Integers({2})},
       And({Compare("year", kEqual, Integers({2})), Compare("price", kEqual, Doubles({1})),
            Compare("year", kNotEqual, Integers({2}))})},
      // An argument is a value, whatever it spells.
      {"language == $1",
       {Keywords({"x' or exists(year) or language == '$1"})},
       Compare("language", kEqual, Keywords({"x' or exists(year) or language == '$1"}))}};
  for (const auto& [text, arguments, filter] : cases) {
    const auto parsed = Parse(text, IdType::kUint64, arguments);
    ASSERT_OK(parsed) << text;
    EXPECT_EQ(CanonicalBytes(*parsed), CanonicalBytes(filter)) << text;
  }
  const auto strings = Parse("id in $1", IdType::kString, {Keywords({"a", "b"})});
  ASSERT_OK(strings);
  EXPECT_EQ(CanonicalBytes(*strings), CanonicalBytes(HasId(Strings({"a", "b"}))));
}

TEST(FilterTextArguments, ErrorsNameTheColumnAndTheArgument) {
  const std::tuple<std::string_view, std::vector<FilterArgument>, int, std::string_view> cases[] = {
      {"year == $1", {}, 9, "$1: not given, filter_args has 0 elements"},
      {"year == $2", {Integers({1})}, 9, "$2: not given, filter_args has 1 element"},
      {"year == $0", {Integers({1})}, 9, "an argument is written $1, $2, ..."},
      {"year == $1x", {Integers({1})}, 9, "an argument is written $1, $2, ..."},
      {"year == $", {Integers({1})}, 9, "an argument is written $1, $2, ..."},
      {"year == $1", {Integers({1, 2})}, 9, "$1: 2 values, must be 1 here"},
      {"year in (1, $1)", {Integers({})}, 13, "$1: 0 values, must be 1 here"},
      {"year == $1", {Doubles({1})}, 9, "$1: a double, year is an int64"},
      {"year in $1", {Keywords({"1"})}, 9, "$1: a keyword, year is an int64"},
      {"year == $1", {Ids({1})}, 9, "$1: ids, year is an int64"},
      {"price == $1", {Integers({INT64_MAX})}, 10, "is not exactly a double, as price is"},
      {"price == $1", {Integers({(int64_t{1} << 53) + 1})}, 10, "$1: \"9007199254740993\" is not"},
      {"made == $1", {Keywords({"May"})}, 9, "$1: \"May\" is not a time"},
      {"good < $1", {Bools({true})}, 6, "bools have no order"},
      {"id == $1", {Keywords({"a"})}, 7, "$1: a keyword, ids are numbers"},
      {"id == $1", {Integers({-1})}, 7, "$1: \"-1\" is negative"},
      {"$1 == 1", {Integers({1})}, 1, "a condition is expected"},
  };
  for (const auto& [text, arguments, column, reason] : cases) {
    EXPECT_THAT(Parse(text, IdType::kUint64, arguments), RefusedAt(column, std::string(reason)))
        << text;
  }
  const auto unnamed = Parse("year == $1", IdType::kUint64, {Integers({1}), Integers({2})});
  EXPECT_THAT(unnamed,
              StatusIs(kInvalidArgument, "filter_args[1]: $2 does not occur in filter_text"));
  EXPECT_EQ(ArgumentFactsOf(unnamed.status()).field, "filter_args[1]");
}

TEST(FilterTextArguments, TheValuesOfAllConditionsAreBounded) {
  const FilterArgument most = Integers(std::vector<int64_t>(4094));
  EXPECT_OK(Parse("year in $1 and year in $1", IdType::kUint64, {most}));
  EXPECT_THAT(Parse("year in $1 and year in $1 and year == 1", IdType::kUint64, {most}),
              RefusedAt(31, "at most 65536 bytes of conditions"));
}

// Enough brackets to exhaust the stack of a parser without a bound.
TEST(FilterText, DepthIsBounded) {
  EXPECT_THAT(Parse(std::string(60000, '(')), RefusedAt(65, "more than 64 brackets"));
  std::string nots;
  for (int i = 0; i < 16000; ++i) nots += "not ";
  EXPECT_THAT(Parse(nots), RefusedAt(257, "more than 64"));
  const auto levels = [](int64_t count) {
    std::string text;
    for (int64_t i = 1; i < count; ++i) text += "not ";
    return Parse(text + "exists(year)");
  };
  EXPECT_OK(levels(8));
  EXPECT_THAT(levels(9), RefusedAt(1, "at most 8 levels"));
  EXPECT_OK(Parse(std::string(60, '(') + "exists(year)" + std::string(60, ')')));
}

TEST(FilterText, EveryLimitIsReachedAndNotExceeded) {
  const auto joined = [](int64_t count, const std::string& part, const std::string& separator) {
    std::string text = part;
    for (int64_t i = 1; i < count; ++i) text += separator + part;
    return text;
  };
  const std::string condition = "exists(year)";
  EXPECT_OK(Parse(joined(255, condition, " or ")));
  EXPECT_THAT(Parse(joined(256, condition, " or ")), RefusedAt(1, "at most 256 conditions"));
  EXPECT_THAT(Parse(joined(300, condition, " or ")),
              RefusedAt(256 * 16 + 1, "at most 256 conditions"));
  EXPECT_OK(Parse("year in (" + joined(4096, "7", ",") + ")"));
  EXPECT_THAT(Parse("year in (" + joined(4097, "7", ",") + ")"),
              RefusedAt(10 + 2 * 4096, "at most 4096 values or ids"));
  EXPECT_OK(Parse("id in (" + joined(4096, "7", ",") + ")"));
  EXPECT_THAT(Parse("id in (" + joined(4097, "7", ",") + ")"),
              RefusedAt(8 + 2 * 4096, "at most 4096 values or ids"));
  // Two conditions with 12 + 8 * 4094 bytes and their `and` with 8 have 65,536.
  const auto two = [&](int64_t first, int64_t second) {
    return Parse("year in (" + joined(first, "7", ",") + ") and year in (" +
                 joined(second, "7", ",") + ")");
  };
  ASSERT_OK_AND_ASSIGN(const auto largest, two(4094, 4094));
  EXPECT_EQ(FilterBytes(largest), 65536);
  EXPECT_THAT(two(4094, 4095), RefusedAt(1, "at most 65536 bytes of conditions"));
  const std::string id(512, 'i');
  EXPECT_OK(Parse("id == '" + id + "'", IdType::kString));
  EXPECT_THAT(Parse("id == '" + id + "i'", IdType::kString),
              RefusedAt(7, "has 513 bytes, an id has 1 .. 512"));
  EXPECT_THAT(Parse("id == ''", IdType::kString), RefusedAt(7, "has 0 bytes"));

  const std::string spaces(65536 - condition.size(), ' ');
  EXPECT_OK(Parse(spaces + condition));
  const auto longer = Parse(spaces + " " + condition);
  EXPECT_THAT(longer,
              StatusIs(kInvalidArgument, "filter_text = 65537 bytes, must be at most 65536"));
  EXPECT_EQ(ArgumentFactsOf(longer.status()).limit, "at most 65536");
}

TEST(FilterTextLaws, APrintedTreeParsesToAnEqualTree) {
  Random random(testing::TestSeed());
  int64_t compared = 0;
  while (compared < 3000) {
    const std::vector<AttributeSpec> specs = RandomSpecs(random);
    const AttributeSchema schema = *AttributeSchema::Create(specs, {});
    const FilterTree tree = RandomFilter(random, specs, 4, 20);
    if (!FitsAsText(tree)) continue;
    const std::string text = TextOf(tree);
    ASSERT_OK_AND_ASSIGN(const auto parsed, ParseFilterText(text, {}, IdType::kUint64, schema, {}));
    ASSERT_TRUE(IsTree(parsed));
    ASSERT_EQ(CanonicalBytes(parsed), CanonicalBytes(tree)) << text;
    ASSERT_EQ(TextOf(parsed), text);
    ASSERT_EQ(Filter(parsed, schema).canonical(), Filter(tree, schema).canonical()) << text;
    const PrintedFilter printed = PrintWithArguments(tree, random);
    ASSERT_OK_AND_ASSIGN(const auto with_arguments, ParseFilterText(printed.text, printed.arguments,
                                                                    IdType::kUint64, schema, {}));
    ASSERT_EQ(CanonicalBytes(with_arguments), CanonicalBytes(tree)) << printed.text;
    ++compared;
  }
}

}  // namespace
}  // namespace nearfield::server
