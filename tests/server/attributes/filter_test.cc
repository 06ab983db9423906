// Tests of schemas, and of the canonical bytes of filters.
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tests/server/attributes/attribute_rows.h"
#include "tests/server/attributes/filter_maker.h"
#include "tests/server/prelude.h"
#include "tests/testing/seed.h"

namespace nearfield::server {
namespace {

auto Refused(const std::string& path, const std::string& part) {
  return StatusIs(kInvalidArgument, AllOf(StartsWith(path + ": "), HasSubstr(part)));
}

TEST(SchemaTest, NamesAndTheirNumberAreBounded) {
  const auto declared = [](const std::string& name) {
    return AttributeSchema::Create({{.name = "first"}, {.name = name}}, {}).status();
  };
  for (const std::string& name :
       {std::string("a"), std::string("z9_"), "a" + std::string(62, '_')}) {
    EXPECT_OK(declared(name)) << name;
  }
  for (const std::string& name :
       {std::string(), "a" + std::string(63, 'x'), std::string("A"), std::string("_a"),
        std::string("9"), std::string("a-b"), std::string("a\xc3\xa4"), std::string("a\0", 2)}) {
    EXPECT_THAT(declared(name), Refused("attributes[1].name", "must be 1 .. 63")) << name;
  }
  EXPECT_THAT(declared("first"), Refused("attributes[1].name", "\"first\" is declared already"));
  std::vector<AttributeSpec> specs;
  for (int i = 0; i < 64; ++i) specs.push_back({.name = "a" + std::to_string(i)});
  const auto schema = AttributeSchema::Create(specs, {});
  ASSERT_OK(schema);
  EXPECT_EQ(schema->Find("a63"), 63);
  EXPECT_EQ(schema->Find("a64"), std::nullopt);
  specs.push_back({.name = "a64"});
  EXPECT_THAT(AttributeSchema::Create(specs, {}),
              Refused("attributes", "65 declared, must be at most 64"));
}

// The request that adds an attribute has one, which the error must name: not a place in the schema.
TEST(SchemaTest, AnAddedAttributeIsNamedAsInItsRequest) {
  const AttributeSchema schema = *AttributeSchema::Create(
      {{.name = "a"}, {.name = "t", .type = AttributeType::kTimestamp, .expires = true}}, {});
  const auto added = [&](const AttributeSpec& spec, const AttributeLimits& limits = {}) {
    return schema.With(spec, limits).status();
  };
  EXPECT_OK(added({.name = "b"}));
  EXPECT_THAT(added({.name = "B"}), Refused("attribute.name", "must be 1 .. 63"));
  EXPECT_THAT(added({.name = "a"}), Refused("attribute.name", "\"a\" is declared already"));
  EXPECT_THAT(added({.name = "b", .expires = true}),
              Refused("attribute.expires", "must have type timestamp"));
  EXPECT_THAT(added({.name = "b", .type = AttributeType::kTimestamp, .expires = true}),
              Refused("attribute.expires", "rows already expire with \"t\""));
  EXPECT_THAT(added({.name = "b"}, {.attributes_max = 2}),
              Refused("attribute", "3 declared, must be at most 2"));
  EXPECT_THAT(added({.name = "b"}, {.attributes_ever_max = 2}),
              Refused("attribute", "3 with those that were dropped, must be at most 2"));
}

// Filters have the same canonical bytes if and only if they differ only in order and repetition.
TEST(FilterCanonicalBytesLaws, OrderAndRepetitionOfOperandsDoNotMatter) {
  const FilterTree a = OfValues(ConditionKind::kIn, "d", Doubles({1, -0.0, 2}));
  const FilterTree b = OfValues(ConditionKind::kIn, "d", Doubles({2, 0.0, 1, 2}));
  const FilterTree c = Compare("i", Comparison::kLess, Integers({1}));
  const FilterTree d = Compare("i", Comparison::kLess, Integers({2}));
  EXPECT_EQ(CanonicalBytes(And({a, Or({c, d})})), CanonicalBytes(And({Or({d, c, d}), b, a})));
  const std::vector<FilterTree> different = {
      a,
      c,
      d,
      Not(a),
      And({a, c}),
      Or({a, c}),
      And({a}),
      And({And({a, c}), d}),
      And({a, And({c, d})}),
      Compare("i", Comparison::kLessEqual, Integers({1})),
      Compare("t", Comparison::kLess, Integers({1})),
      Compare("i", Comparison::kLess, Integers({1}, AttributeType::kTimestamp)),
      OfValues(ConditionKind::kListAny, "ks", Keywords({"a", "b"})),
      OfValues(ConditionKind::kListAll, "ks", Keywords({"a", "b"})),
      OfValues(ConditionKind::kListAny, "ks", Keywords({"ab"})),
      OfValues(ConditionKind::kListAny, "ks", Keywords({"", "ab"})),
      Exists("i"),
      Exists("ii"),
      HasId(IdColumn::OfNumbers({1}))};
  for (size_t i = 0; i < different.size(); ++i) {
    for (size_t j = 0; j < i; ++j)
      EXPECT_NE(CanonicalBytes(different[i]), CanonicalBytes(different[j])) << i << " and " << j;
  }
}

TEST(FilterCanonicalBytesLaws, EqualBytesPassTheSameRows) {
  testing::Random random(testing::TestSeed());
  const std::vector<AttributeSpec> specs = {
      {.name = "b", .type = AttributeType::kBool},
      {.name = "bs", .type = AttributeType::kBool, .is_list = true}};
  for (int round = 0; round < 20; ++round) {
    const std::vector<PlainRow> rows = RandomRows(random, specs, 30);
    const FilterTree a = RandomFilter(random, specs, 2, 2);
    const FilterTree b = RandomFilter(random, specs, 2, 2);
    std::vector<FilterTree> filters = {And({a, b}), And({b, a, b}), Or({a, b}), Or({b, a, a})};
    EXPECT_EQ(CanonicalBytes(filters[0]), CanonicalBytes(filters[1]));
    EXPECT_EQ(CanonicalBytes(filters[2]), CanonicalBytes(filters[3]));
    for (int i = 0; i < 40; ++i) filters.push_back(RandomFilter(random, specs, 2, 2));
    std::map<std::string, std::vector<uint32_t>> passing_of_bytes;
    for (const FilterTree& filter : filters) {
      const std::vector<uint32_t> passing = PassingRows(filter, specs, rows);
      const auto [found, is_new] = passing_of_bytes.emplace(CanonicalBytes(filter), passing);
      EXPECT_EQ(found->second, passing);
    }
  }
}

}  // namespace
}  // namespace nearfield::server
