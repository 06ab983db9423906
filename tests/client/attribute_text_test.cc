// Tests of attributes as text: what is printed is read back, to the bit.
#include "client/formats/attribute_text.h"

#include <bit>
#include <cstring>
#include <random>

#include "client/formats/attribute_reader.h"
#include "tests/client/prelude.h"
#include "tests/client/random_value.h"
#include "tests/testing/seed.h"

namespace nearfield::client {
namespace {

// Adds a random row to the column.
void AddRow(std::mt19937_64& random, AttributeColumnBuilder* builder) {
  const AttributeType type = builder->spec().type;
  if (random() % 4 == 0) return builder->AddMissing();
  if (!builder->spec().is_list) {
    EXPECT_OK(builder->Add(RandomValue(random, type)));
    return;
  }
  std::vector<AttributeValue> values;
  for (uint64_t i = random() % 4; i > 0; --i) values.push_back(RandomValue(random, type));
  EXPECT_OK(builder->AddList(values));
}

// Returns the bits of doubles, so that -0 and +0 differ.
std::vector<uint64_t> BitsOf(const AttributeValues& values) {
  std::vector<uint64_t> bits;
  if (const auto* doubles = std::get_if<std::vector<double>>(&values)) {
    for (const double value : *doubles) bits.push_back(std::bit_cast<uint64_t>(value));
  }
  return bits;
}

TEST(AttributeTextLaws, WhatIsPrintedIsReadBack) {
  std::mt19937_64 random(testing::TestSeed());
  for (int round = 0; round < 200; ++round) {
    for (const AttributeSpec& spec : EveryAttribute()) {
      AttributeColumnBuilder builder(spec);
      const size_t rows_count = random() % 10;
      for (size_t row = 0; row < rows_count; ++row) AddRow(random, &builder);
      const AttributeColumn column = builder.Take();
      AttributeReader reader({spec});
      for (const std::string& json : AttributeJson(column, rows_count)) {
        ASSERT_OK(CheckJson(json)) << json;
        const std::vector<JsonMember> members = {{.key = spec.name, .value = json}};
        ASSERT_OK(reader.AddRow(members)) << json;
      }
      const std::vector<AttributeColumn> back = reader.Take();
      if (Count(column.values) == 0 && column.list_sizes.empty()) {
        EXPECT_THAT(back, IsEmpty());
        continue;
      }
      ASSERT_THAT(back, SizeIs(1));
      EXPECT_EQ(back[0].values, column.values);
      EXPECT_EQ(BitsOf(back[0].values), BitsOf(column.values));
      EXPECT_EQ(back[0].presence, column.presence);
      EXPECT_EQ(back[0].list_sizes, column.list_sizes);
    }
  }
}

TEST(AttributeText, ValuesAndCells) {
  const auto expect = [](const AttributeColumn& column, size_t rows,
                         const std::vector<std::string>& json,
                         const std::vector<std::string>& cells) {
    EXPECT_EQ(AttributeJson(column, rows), json);
    EXPECT_EQ(AttributeCells(column, rows), cells);
  };
  expect({.attribute = "d", .values = std::vector<double>{-0.0, 0.1, -INFINITY}}, 3,
         {"-0.0", "0.10000000000000001", "\"-inf\""}, {"-0.0", "0.10000000000000001", "-inf"});
  expect({.attribute = "k",
          .values = std::vector<std::string>{"null", "a\"b"},
          .presence = {true, false, true}},
         3, {"\"null\"", "null", "\"a\\\"b\""}, {"null", "", "a\"b"});
  expect({.attribute = "ks",
          .values = std::vector<std::string>{"b", "a", "b"},
          .presence = {},
          .list_sizes = {0, 3}},
         2, {"[]", "[\"b\",\"a\",\"b\"]"}, {"[]", "[\"b\",\"a\",\"b\"]"});
  expect({.attribute = "t",
          .values = std::vector<Timestamp>{Timestamp(std::chrono::microseconds(1500000)),
                                           Timestamp(std::chrono::microseconds(INT64_MAX))}},
         2, {"\"1970-01-01T00:00:01.500000Z\"", "9223372036854775807"},
         {"1970-01-01T00:00:01.500000Z", "9223372036854775807"});
}

}  // namespace
}  // namespace nearfield::client
