#include "client/formats/json_text.h"

#include <bit>
#include <cmath>
#include <random>

#include "absl/strings/str_format.h"
#include "client/formats/jsonl.h"
#include "tests/client/prelude.h"
#include "tests/testing/seed.h"

namespace nearfield::client {
namespace {

TEST(JsonText, AcceptsValuesAndRefusesEverythingElse) {
  for (const std::string_view text :
       {"1", "\"a\"", " [1, 2] ", "{\"a\":{\"b\":[]}}", "null", "-0.0e-3"}) {
    EXPECT_OK(CheckJson(text)) << text;
  }
  for (const std::string_view text :
       {"", " ", "{", "[1,]", "{'a':1}", "1 2", "nan", "Infinity", "01", "\"\\x\"", "\"\xff\"",
        "\xef\xbb\xbf[1]", "[1e400]", "{\"a\":1}}"}) {
    EXPECT_THAT(CheckJson(text), StatusIs(kInvalidArgument, HasSubstr("column "))) << text;
  }
  EXPECT_THAT(CheckJson(std::string_view("[1]\0[2]", 7)),
              StatusIs(kInvalidArgument, HasSubstr("NUL")));
}

// A nesting depth that would exhaust the stack of a recursive parser.
TEST(JsonText, DepthCostsNoStack) {
  const std::string deep = std::string(1000000, '[') + std::string(1000000, ']');
  EXPECT_OK(CheckJson(deep));
  EXPECT_EQ(CompactJson(deep), deep);
  EXPECT_EQ(JsonElements(deep)->size(), 1u);
}

TEST(JsonText, CompactingKeepsNumbersOrderAndStrings) {
  EXPECT_EQ(
      CompactJson(" { \"b\" : 1.50 , \"a\" : [ 12345678901234567890123 , \"x  \\\" y\" ] }\n"),
      "{\"b\":1.50,\"a\":[12345678901234567890123,\"x  \\\" y\"]}");
}

TEST(JsonText, MembersAreCutWhereTheyStand) {
  ASSERT_OK_AND_ASSIGN(const auto members,
                       JsonMembers(R"( {"a\u0041": [1, {"x": 2}], "b" :"p,q:r}", "c":{} } )"));
  ASSERT_EQ(members.size(), 3u);
  EXPECT_EQ(members[0].key, "aA");
  EXPECT_EQ(members[0].value, R"([1, {"x": 2}])");
  EXPECT_EQ(members[1].value, R"("p,q:r}")");
  EXPECT_EQ(members[2].value, "{}");
  EXPECT_TRUE(JsonMembers("{}")->empty());
  EXPECT_FALSE(JsonMembers("[1]").ok());
}

TEST(JsonText, EveryFloatComesBackFromItsDecimal) {
  std::mt19937 random(static_cast<uint32_t>(testing::TestSeed()));
  std::string text = "[";
  std::vector<float> values = {0.0f, -0.0f, 1e-45f, 3.4028235e38f, 1.17549435e-38f};
  while (values.size() < 5000) {
    const auto value = std::bit_cast<float>(static_cast<uint32_t>(random()));
    if (std::isfinite(value)) values.push_back(value);
  }
  for (const float value : values)
    absl::StrAppendFormat(&text, "%s%.9g", text == "[" ? "" : ", ", value);
  ASSERT_OK_AND_ASSIGN(const auto read, JsonFloats(text + "]"));
  ASSERT_EQ(read.size(), values.size());
  for (size_t i = 0; i < values.size(); ++i) {
    ASSERT_EQ(std::bit_cast<uint32_t>(read[i]), std::bit_cast<uint32_t>(values[i])) << values[i];
  }
}

// 1 + 2^-24 + 2^-60 is slightly above the middle of two floats. Conversion through a double would
// round it to the middle, and then down.
TEST(JsonText, DecimalsAreRoundedOnce) {
  EXPECT_THAT(JsonFloats("[1.00000005960464477626]"),
              IsOkAndHolds(ElementsAre(std::nextafter(1.0f, 2.0f))));
}

TEST(JsonText, NumbersBeyondFloatAreRefusedAndTinyOnesAreZero) {
  EXPECT_THAT(JsonFloats("[1, 1e39]"),
              StatusIs(kInvalidArgument, AllOf(HasSubstr("element 1"), HasSubstr("1e39"))));
  EXPECT_THAT(JsonFloats("[1, \"2\"]"), StatusIs(kInvalidArgument, HasSubstr("element 1")));
  EXPECT_THAT(JsonFloats("[[1]]"), StatusIs(kInvalidArgument, HasSubstr("element 0")));
  EXPECT_THAT(JsonFloats("7"), StatusIs(kInvalidArgument, HasSubstr("array")));
  ASSERT_OK_AND_ASSIGN(const auto tiny, JsonFloats("[1e-60, -1e-60]"));
  EXPECT_EQ(std::bit_cast<uint32_t>(tiny[0]), 0u);
  EXPECT_EQ(std::bit_cast<uint32_t>(tiny[1]), 0x80000000u);
}

TEST(JsonText, IdsAreStringsOrUnsignedNumbers) {
  EXPECT_EQ(*JsonId("18446744073709551615"), Id(~uint64_t{0}));
  EXPECT_EQ(*JsonId("\"a\\u00e9\""), Id(std::string("a\xc3\xa9")));
  for (const std::string_view text :
       {"-1", "1.0", "1e3", "18446744073709551616", "null", "[1]", ""}) {
    EXPECT_THAT(JsonId(text), StatusIs(kInvalidArgument)) << text;
  }
}

TEST(JsonText, QuotingAnyBytesGivesJsonThatReadsBack) {
  std::mt19937 random(static_cast<uint32_t>(testing::TestSeed()));
  for (int i = 0; i < 2000; ++i) {
    std::string bytes(random() % 12, '\0');
    for (char& c : bytes) c = static_cast<char>(random());
    const std::string quoted = QuoteJson(bytes);
    ASSERT_OK(CheckJson(quoted));
    const auto back = JsonString(quoted);
    ASSERT_TRUE(back.has_value());
    ASSERT_TRUE(!IsUtf8(bytes) || *back == bytes);
  }
  EXPECT_EQ(QuoteJson("a\"\\\n\x1b\xff"), "\"a\\\"\\\\\\n\\u001b\xef\xbf\xbd\"");
}

TEST(JsonText, Utf8IsStrict) {
  for (const std::string_view text : {"", "a", "\xc3\xa9", "\xe2\x82\xac", "\xf0\x9f\x98\x80"})
    EXPECT_TRUE(IsUtf8(text));
  for (const std::string_view text :
       {"\x80", "\xc0\x80", "\xc1\xbf", "\xe0\x80\x80", "\xed\xa0\x80", "\xf0\x80\x80\x80",
        "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\xc3", "\xe2\x82", "\xff"}) {
    EXPECT_FALSE(IsUtf8(text));
  }
}

TEST(JsonRow, ReadsIdVectorAndPayload) {
  ASSERT_OK_AND_ASSIGN(
      const auto row,
      ParseJsonRow(R"({"vector":[1, -2.5], "id":"x", "payload":{"b": 1, "a": [2 ]}})"));
  EXPECT_EQ(row.id, Id(std::string("x")));
  EXPECT_THAT(row.vector, ElementsAre(1.0f, -2.5f));
  EXPECT_EQ(row.payload, R"({"b":1,"a":[2]})");
  EXPECT_EQ(ParseJsonRow(R"({"vector":[1],"payload":"te\"xt"})")->payload, "te\"xt");
  EXPECT_EQ(ParseJsonRow(R"({"vector":[1],"payload":null})")->payload, "");
  EXPECT_EQ(ParseJsonRow(R"({"vector":[1]})")->id, std::nullopt);
  EXPECT_THAT(ParseJsonRow(R"({"embedding":[1,2]})")->vector, ElementsAre(1.0f, 2.0f));
}

TEST(JsonRow, AChangeKeepsWhatIsAbsentApartFromNull) {
  const std::vector<AttributeSpec> specs = {{"year", AttributeType::kInt64}};
  ASSERT_OK_AND_ASSIGN(const auto year, ParseJsonUpdate(R"({"id":7,"year":null})", specs));
  EXPECT_EQ(year.id, Id(uint64_t{7}));
  EXPECT_EQ(year.payload, std::nullopt);
  ASSERT_EQ(year.attributes.size(), 1u);
  EXPECT_EQ(year.attributes[0].value, "null");
  EXPECT_EQ(ParseJsonUpdate(R"({"id":7,"payload":null})", specs)->payload, "");
  EXPECT_THAT(ParseJsonUpdate(R"({"id":7,"vector":[1],"year":1})", specs),
              StatusIs(kInvalidArgument, HasSubstr("--mode upsert")));
  EXPECT_THAT(ParseJsonUpdate(R"({"id":7})", specs),
              StatusIs(kInvalidArgument, HasSubstr("nothing to change")));
}

TEST(JsonRow, NamesWhatIsWrong) {
  EXPECT_THAT(ParseJsonRow("[1]"), StatusIs(kInvalidArgument, HasSubstr("object")));
  EXPECT_THAT(ParseJsonRow(R"({"id":1})"), StatusIs(kInvalidArgument, HasSubstr("no \"vector\"")));
  EXPECT_THAT(ParseJsonRow(R"({"vector":[]})"), StatusIs(kInvalidArgument, HasSubstr("empty")));
  EXPECT_THAT(ParseJsonRow(R"({"vektor":[1]})"), StatusIs(kInvalidArgument, HasSubstr("vektor")));
  EXPECT_THAT(ParseJsonRow(R"({"vector":[1],"vector":[2]})"),
              StatusIs(kInvalidArgument, HasSubstr("twice")));
  EXPECT_THAT(ParseJsonRow(R"({"vector":[1],"embedding":[2]})"),
              StatusIs(kInvalidArgument, HasSubstr("second vector")));
  EXPECT_THAT(ParseJsonRow(R"({"vector":[1,"a"]})"),
              StatusIs(kInvalidArgument, HasSubstr("element 1")));
  EXPECT_THAT(ParseJsonRow(R"({"vector":[1],"id":-5})"),
              StatusIs(kInvalidArgument, HasSubstr("-5")));
  EXPECT_THAT(ParseJsonRow(R"({"vector":[1)"), StatusIs(kInvalidArgument, HasSubstr("column")));
}

}  // namespace
}  // namespace nearfield::client
