// Tests of attributes: values, columns, and the files that contain them.
#include "nearfield/client/attributes.h"

#include <limits>

#include "client/formats/attribute_file.h"
#include "client/formats/row_source.h"
#include "tests/client/prelude.h"
#include "tests/client/test_files.h"

namespace nearfield::client {
namespace {

using std::chrono::microseconds;
using std::chrono::sys_days;
using std::literals::operator""ns;
using std::literals::operator""us;
using std::literals::operator""y;

const std::vector<AttributeSpec> kSpecs = {
    {"year", AttributeType::kInt64},     {"price", AttributeType::kDouble},
    {"good", AttributeType::kBool},      {"language", AttributeType::kKeyword},
    {"made", AttributeType::kTimestamp}, {"tags", AttributeType::kKeyword, true}};

TEST(Attributes, TheTypeOfAValueIsThatOfTheExpression) {
  EXPECT_EQ(AttributeValue(7).type(), AttributeType::kInt64);
  EXPECT_EQ(AttributeValue(7u).variant(), AttributeValue::Variant(int64_t{7}));
  EXPECT_EQ(AttributeValue(int64_t{-7}).type(), AttributeType::kInt64);
  EXPECT_EQ(AttributeValue(7.0f).variant(), AttributeValue::Variant(7.0));
  EXPECT_EQ(AttributeValue(true).type(), AttributeType::kBool);
  EXPECT_EQ(AttributeValue("de").type(), AttributeType::kKeyword);
  EXPECT_EQ(AttributeValue(std::string_view("de")), AttributeValue(std::string("de")));
  EXPECT_EQ(AttributeValue(sys_days(1970y / 1 / 2)),
            AttributeValue(Timestamp(microseconds(int64_t{86400} * 1000000))));
  // Finer times are rounded down, also before 1970.
  using Fine = std::chrono::time_point<std::chrono::system_clock, std::chrono::nanoseconds>;
  EXPECT_EQ(AttributeValue(Fine(1999ns)), AttributeValue(Timestamp(1us)));
  EXPECT_EQ(AttributeValue(Fine(-1ns)), AttributeValue(Timestamp(-1us)));
  // int64 cannot hold every value of the first type, and a char is not a number.
  static_assert(!std::is_constructible_v<AttributeValue, uint64_t>);
  static_assert(!std::is_constructible_v<AttributeValue, char>);
  static_assert(!std::is_constructible_v<AttributeValue, int*>);
}

TEST(Attributes, SpecsPrintAndRead) {
  for (const AttributeSpec& spec : kSpecs) EXPECT_EQ(*ParseAttributeSpec(ToString(spec)), spec);
  EXPECT_EQ(ToString(kSpecs.back()), "tags:keyword[]");
  const AttributeSpec until = {"until", AttributeType::kTimestamp, false, true};
  EXPECT_EQ(ToString(until), "until:timestamp:expires");
  EXPECT_EQ(*ParseAttributeSpec(ToString(until)), until);
  for (const std::string_view text :
       {"", "year", "year:", ":int64", "year:int", "year:int64[", "year:[]", "year:unknown",
        "year:int64[][]", "year: int64", "year:expires", "year:int64:", "a:bool:expires:expires"}) {
    EXPECT_THAT(ParseAttributeSpec(text), StatusIs(kInvalidArgument, HasSubstr("NAME:TYPE")))
        << text;
  }
}

TEST(Attributes, ABuilderMakesColumns) {
  AttributeColumnBuilder years(kSpecs[0]);
  EXPECT_OK(years.Add(2020));
  years.AddMissing();
  EXPECT_THAT(years.Add(2.5), StatusIs(kInvalidArgument, "year: a double, expected an int64"));
  EXPECT_THAT(years.AddList({2020}),
              StatusIs(kInvalidArgument, HasSubstr("a list, expected one value")));
  EXPECT_EQ(years.rows_count(), 2u);
  EXPECT_EQ(years.rows_with_value(), 1u);
  AttributeColumn column = years.Take();
  EXPECT_EQ(column.attribute, "year");
  EXPECT_EQ(column.values, AttributeValues(std::vector<int64_t>{2020}));
  EXPECT_EQ(column.presence, (std::vector<bool>{true, false}));
  EXPECT_THAT(column.list_sizes, IsEmpty());
  EXPECT_OK(years.Add(2021));
  column = years.Take();
  EXPECT_THAT(column.presence, IsEmpty());  // every row has one
  EXPECT_EQ(Count(column.values), 1u);

  AttributeColumnBuilder tags(kSpecs[5]);
  EXPECT_OK(tags.AddList({"a", "b"}));
  EXPECT_THAT(tags.AddList({"a", 1}), StatusIs(kInvalidArgument, HasSubstr("an int64")));
  EXPECT_THAT(tags.Add("a"), StatusIs(kInvalidArgument, HasSubstr("expected a list")));
  EXPECT_OK(tags.AddList({}));
  column = tags.Take();
  EXPECT_EQ(column.values, AttributeValues(std::vector<std::string>{"a", "b"}));
  EXPECT_THAT(column.list_sizes, ElementsAre(2, 0));
}

class AttributeFiles : public ::testing::Test {
 protected:
  absl::StatusOr<AttributeFile> Open(const std::string& name, const std::string& text) {
    return AttributeFile::Open(folder_.Write(name, text), kSpecs);
  }
  TempFolder folder_;
};

// Checks the values that both files below contain, row by row in two batches.
void ExpectTheValues(AttributeFile& file) {
  EXPECT_EQ(file.rows_count(), 4u);
  EXPECT_THAT(file.rows_with_value(), ElementsAre(2, 3, 1, 2, 2, 2));
  std::vector<AttributeColumn> first = file.Next(1);
  ASSERT_THAT(first, SizeIs(6));
  EXPECT_EQ(first[0].values, AttributeValues(std::vector<int64_t>{-2020}));
  EXPECT_EQ(first[1].values, AttributeValues(std::vector<double>{2.5}));
  EXPECT_EQ(first[2].values, AttributeValues(std::vector<bool>{true}));
  EXPECT_EQ(first[3].values, AttributeValues(std::vector<std::string>{"d\"e, \u00e9"}));
  EXPECT_EQ(first[4].values, AttributeValues(std::vector<Timestamp>{sys_days(2024y / 5 / 17)}));
  EXPECT_EQ(first[5].values, AttributeValues(std::vector<std::string>{"a", "b"}));
  std::vector<AttributeColumn> rest = file.Next(3);
  ASSERT_THAT(rest, SizeIs(5));  // no row has "good"
  EXPECT_EQ(rest[0].attribute, "year");
  EXPECT_EQ(rest[0].presence, (std::vector<bool>{false, false, true}));
  EXPECT_EQ(rest[1].values,
            AttributeValues(std::vector<double>{std::numeric_limits<double>::infinity(), -1e300}));
  EXPECT_EQ(rest[2].values, AttributeValues(std::vector<std::string>{""}));
  EXPECT_EQ(rest[3].values, AttributeValues(std::vector<Timestamp>{Timestamp(-5us)}));
  EXPECT_EQ(rest[4].presence, (std::vector<bool>{true, false, false}));
  EXPECT_THAT(rest[4].list_sizes, ElementsAre(0));
}

TEST_F(AttributeFiles, JsonLines) {
  ASSERT_OK_AND_ASSIGN(
      auto file,
      Open("a.jsonl",
           "{\"year\":-2020,\"price\":2.5,\"good\":true,\"language\":\"d\\\"e, \\u00e9\","
           "\"made\":\"2024-05-17\",\"tags\":[\"a\",\"b\"],\"title\":\"other\"}\n"
           "{\"price\":\"inf\",\"tags\":[],\"language\":null}\n"
           "{}\n"
           "{\"year\":1,\"price\":-1e300,\"language\":\"\",\"made\":-5}\n"));
  ExpectTheValues(file);
}

TEST_F(AttributeFiles, Csv) {
  ASSERT_OK_AND_ASSIGN(
      auto file,
      Open(
          "a.csv",
          "tags,year,title,price,good,language,made\r\n"
          "\r\n\"[\"\"a\"\", \"\"b\"\"]\",-2020,\"a\nb\",2.5,True,\"d\"\"e, \u00e9\",2024-05-17\r\n"
          "[],,x,inf,,,\n"
          ",,,,,,\n"
          ",1,,-1e300,,\"\",-5"));
  ExpectTheValues(file);
}

TEST_F(AttributeFiles, ErrorsNameFileLineAndAttribute) {
  const std::tuple<std::string, std::string, std::string> cases[] = {
      {"a.jsonl", "{}\n{\"year\":2.5}\n", "line 2: year: \"2.5\" is not a whole number"},
      {"a.jsonl", "{\"year\":\"2\"}\n", "line 1: year: \"2\" is a string; expected an int64"},
      {"a.jsonl", "{\"year\":[2]}\n", "line 1: year: [2] is not a single value"},
      {"a.jsonl", "{\"year\":1,\"year\":2}\n", "line 1: year: given twice"},
      {"a.jsonl", "{\"language\":7}\n", "line 1: language: 7 is not a string"},
      {"a.jsonl", "{\"tags\":\"a\"}\n", "line 1: tags: expected a JSON array"},
      {"a.jsonl", "{\"tags\":[\"a\",null]}\n", "line 1: tags: null is not a single value"},
      {"a.jsonl", "{\"made\":\"today\"}\n", "line 1: made: \"today\" is not a time"},
      {"a.jsonl", "[1]\n", "line 1: expected a JSON object"},
      {"a.csv", "", "line 0: expected the names"},
      {"a.csv", "year,year\n", "line 1: two columns year"},
      {"a.csv", "year\n1,2\n", "line 2: 2 cells, the first line has 1"},
      {"a.csv", "year,good\n1,true\n2,yes\n", "line 3: good: \"yes\" is neither"},
      {"a.csv", "year,language\n\"1\",\"a\nb\n", "line 2: a quote that is not closed"},
      {"a.csv", "language\na\"b\n", "line 2: cell 1: a quote in the middle"},
      {"a.csv", "language\n\"a\"b\n", "line 2: cell 1: a quote in the middle"},
      {"a.csv", "tags\n\"[1\"\n", "line 2: tags: column"},
      {"a.csv", "language\n\xff\n", "line 2: language: "},
  };
  for (const auto& [name, text, reason] : cases) {
    EXPECT_THAT(Open(name, text),
                StatusIs(kInvalidArgument, AllOf(HasSubstr(name), HasSubstr(reason))))
        << text;
  }
  EXPECT_THAT(Open("a.txt", ""), StatusIs(kInvalidArgument, HasSubstr("ends in .jsonl or .csv")));
  EXPECT_THAT(AttributeFile::Open("/nonexistent.csv", kSpecs), StatusIs(kNotFound));
}

TEST_F(AttributeFiles, RowsOfASourceCarryTheirAttributesInEveryBatch) {
  const std::vector<float> vectors = {1, 2, 3, 4, 5, 6, 7, 8};
  const std::string fbin = folder_.Write("v.fbin", Fbin(4, 2, vectors));
  const std::string csv = folder_.Write("a.csv", "year\n1\n\n3\n4\n");
  const std::string jsonl = folder_.Write("v.jsonl",
                                          "{\"vector\":[1,2],\"year\":1}\n{\"vector\":[3,4]}\n"
                                          "{\"vector\":[5,6],\"year\":3}\n"
                                          "{\"vector\":[7,8],\"year\":4}\n");
  const std::vector<AttributeSpec> specs = {kSpecs[0], kSpecs[3]};
  for (const RowSourceOptions& options :
       {RowSourceOptions{.path = fbin, .attributes = specs, .attributes_path = csv},
        RowSourceOptions{.path = jsonl, .attributes = specs}}) {
    ASSERT_OK_AND_ASSIGN(const auto source, OpenRowSource(options));
    EXPECT_THAT(source->shape().rows_with_attribute, ElementsAre(3, 0));
    std::vector<int64_t> years;  // 0: missing
    RowBatch batch;
    while (source->Next(1, &batch).ok() && Count(batch.ids) > 0) {
      ASSERT_EQ(Count(batch.ids), 1u);
      years.push_back(batch.attributes.empty()
                          ? 0
                          : std::get<std::vector<int64_t>>(batch.attributes[0].values)[0]);
    }
    EXPECT_THAT(years, ElementsAre(1, 0, 3, 4)) << options.path;
  }
  EXPECT_THAT(OpenRowSource({.path = jsonl}),
              StatusIs(kInvalidArgument,
                       HasSubstr("unknown member \"year\"; a row has id, vector, payload")));
  EXPECT_THAT(OpenRowSource({.path = jsonl, .attributes = {kSpecs[3]}}),
              StatusIs(kInvalidArgument, HasSubstr("payload, language")));
  EXPECT_THAT(OpenRowSource({.path = jsonl, .attributes = specs, .attributes_path = csv}),
              StatusIs(kInvalidArgument, HasSubstr("carries its own")));
  const std::string few = folder_.Write("few.csv", "year\n1\n");
  EXPECT_THAT(OpenRowSource({.path = fbin, .attributes = specs, .attributes_path = few}),
              StatusIs(kInvalidArgument, HasSubstr("has 1 entries")));
}

}  // namespace
}  // namespace nearfield::client
