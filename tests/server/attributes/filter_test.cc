// Tests of schemas, of valid and invalid filters, and of canonical bytes: every limit exactly and
// exceeded by one, types, shapes, and paths in errors.
#include "server/attributes/filter.h"

#include <cmath>
#include <cstdint>
#include <limits>
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

AttributeSchema Schema() {
  return *AttributeSchema::Create(
      {{.name = "i"},
       {.name = "d", .type = AttributeType::kDouble},
       {.name = "b", .type = AttributeType::kBool},
       {.name = "k", .type = AttributeType::kKeyword},
       {.name = "t", .type = AttributeType::kTimestamp},
       {.name = "ks", .type = AttributeType::kKeyword, .is_list = true}},
      {});
}

absl::Status Checked(FilterTree tree, const AttributeLimits& limits = {}) {
  return ValidateFilter(std::move(tree), Schema(), limits).status();
}

auto Refused(const std::string& path, const std::string& part) {
  return StatusIs(kInvalidArgument, AllOf(StartsWith(path + ": "), HasSubstr(part)));
}

FilterTree Equal(const std::string& name, ValueColumn value) {
  return Compare(name, Comparison::kEqual, std::move(value));
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

TEST(FilterTest, LevelsAreBounded) {
  FilterTree tree = Exists("i");
  for (int level = 2; level <= 8; ++level) tree = level % 2 == 0 ? Not(tree) : And({tree});
  EXPECT_EQ(FilterDepth(tree), 8);
  EXPECT_OK(Checked(tree));
  EXPECT_THAT(Checked(Not(tree)), Refused("filter", "more than 8 levels"));
  // Whatever the setting, the depth is at most kFilterDepthMax.
  for (int level = 9; level <= kFilterDepthMax; ++level) tree = Not(tree);
  EXPECT_OK(Checked(tree, {.filter_depth_max = 1000}));
  EXPECT_FALSE(Checked(Not(tree), {.filter_depth_max = 1000}).ok());
}

TEST(FilterTest, ConditionsAreBounded) {
  std::vector<FilterTree> filters(255, Exists("i"));
  EXPECT_OK(Checked(Or(filters)));
  filters.push_back(Exists("i"));
  EXPECT_THAT(Checked(Or(filters)), Refused("filter", "more than 256 conditions"));
}

TEST(FilterTest, ValuesAndIdsOfAConditionAreBounded) {
  for (const int64_t count : {4096, 4097}) {
    const FilterTree in = OfValues(ConditionKind::kIn, "i",
                                   Integers(std::vector<int64_t>(static_cast<size_t>(count))));
    const FilterTree any = OfValues(ConditionKind::kListAny, "ks",
                                    Keywords(std::vector<std::string>(static_cast<size_t>(count))));
    const FilterTree id =
        HasId(IdColumn::OfNumbers(std::vector<uint64_t>(static_cast<size_t>(count))));
    if (count == 4096) {
      for (const FilterTree& tree : {in, any, id}) EXPECT_OK(Checked(tree));
    } else {
      EXPECT_THAT(Checked(And({Exists("i"), in})),
                  Refused("filter.and[1].in", "4097 values, must be 1 .. 4096"));
      EXPECT_THAT(Checked(any), Refused("filter.list_any", "4097 values"));
      EXPECT_THAT(Checked(Not(id)), Refused("filter.not.has_id", "4097 values"));
    }
  }
}

// A condition takes 8 bytes plus its name, a keyword 4 plus its bytes.
TEST(FilterTest, BytesAreBounded) {
  const size_t keyword_bytes = 65536 - 8 - 1 - 4;
  EXPECT_OK(Checked(Equal("k", Keywords({std::string(keyword_bytes, 'x')}))));
  EXPECT_THAT(
      Checked(Equal("k", Keywords({std::string(keyword_bytes + 1, 'x')}))),
      Refused("filter", "65537 bytes of conditions, names, values and ids, must be at most 65536"));
  EXPECT_EQ(FilterBytes(And({OfValues(ConditionKind::kIn, "i", Integers({1, 2})),
                             HasId(IdColumn::OfNumbers({7}))})),
            8 + (8 + 1 + 16) + (8 + 8));
  IdColumn texts(IdType::kString);
  texts.AppendString("abc");
  EXPECT_EQ(FilterBytes(HasId(texts)), 8 + 4 + 3);
}

TEST(FilterTest, TypesMustBeTheSame) {
  EXPECT_OK(Checked(Equal("i", Integers({INT64_MIN}))));
  EXPECT_OK(Checked(Equal("d", Doubles({-std::numeric_limits<double>::infinity()}))));
  EXPECT_OK(Checked(Equal("t", Integers({0}, AttributeType::kTimestamp))));
  EXPECT_THAT(Checked(Equal("i", Doubles({1}))),
              Refused("filter.comparison.value", "double given, \"i\" has type int64"));
  EXPECT_THAT(Checked(Equal("d", Integers({1}))),
              Refused("filter.comparison.value", "int64 given"));
  EXPECT_THAT(Checked(Equal("t", Integers({1}))),
              Refused("filter.comparison.value", "\"t\" has type timestamp"));
  EXPECT_THAT(Checked(Not(OfValues(ConditionKind::kIn, "k", Bools({true})))),
              Refused("filter.not.in.values", "bool given"));
  EXPECT_THAT(Checked(OfValues(ConditionKind::kListAll, "ks", Integers({1}))),
              Refused("filter.list_all.values", "\"ks\" has type list of keyword"));
}

TEST(FilterTest, NamesPathValueAndLimit) {
  EXPECT_THAT(Checked(And({Exists("i"), Not(Equal("nope\n", Integers({1})))})),
              Refused("filter.and[1].not.comparison.attribute",
                      "\"nope\\n\" is no attribute of the collection"));
  EXPECT_THAT(ValidateFilter(Exists("i"), AttributeSchema(), {}),
              Refused("filter.exists.attribute", "which declares none"));
  EXPECT_THAT(Checked(Or({Equal("ks", Keywords({"a"}))})),
              Refused("filter.or[0].comparison.attribute", "must be list_any or list_all"));
  EXPECT_THAT(Checked(OfValues(ConditionKind::kListAny, "k", Keywords({"a"}))),
              Refused("filter.list_any.attribute", "must be comparison or in"));
  EXPECT_THAT(Checked(Compare("b", Comparison::kLess, Bools({true}))),
              Refused("filter.comparison.op", "must be EQUAL or NOT_EQUAL"));
  EXPECT_OK(Checked(Compare("b", Comparison::kNotEqual, Bools({true}))));
  EXPECT_THAT(Checked(Equal("d", Doubles({std::nan("")}))),
              Refused("filter.comparison.value", "NaN"));
  EXPECT_THAT(Checked(OfValues(ConditionKind::kIn, "d", Doubles({1, std::nan("")}))),
              Refused("filter.in.values[1]", "NaN"));
}

TEST(FilterTest, OperandsMustBeThere) {
  EXPECT_THAT(Checked(And({})), Refused("filter.and", "no filters given"));
  EXPECT_THAT(Checked(Not(Or({}))), Refused("filter.not.or", "no filters given"));
  EXPECT_THAT(Checked(OfValues(ConditionKind::kIn, "i", Integers({}))),
              Refused("filter.in", "no values given, must be 1 .. 4096"));
  EXPECT_THAT(Checked(OfValues(ConditionKind::kListAll, "ks", Keywords({}))),
              Refused("filter.list_all", "no values given"));
  EXPECT_THAT(Checked(HasId(IdColumn())), Refused("filter.has_id", "no ids given"));
  EXPECT_THAT(Checked(Equal("i", Integers({}))), Refused("filter.comparison", "no values given"));
  EXPECT_THAT(Checked(Equal("i", Integers({1, 2}))), Refused("filter.comparison", "must be 1"));
  FilterTree childless = Exists("i");
  childless.conditions[0].kind = ConditionKind::kNot;
  EXPECT_THAT(Checked(childless), Refused("filter.not", "must have 1"));
  FilterTree parent = Not(Exists("i"));
  parent.conditions[0].kind = ConditionKind::kExists;
  EXPECT_THAT(Checked(parent), Refused("filter.exists", "must have 0"));
}

TEST(FilterTest, WhatIsNoTreeIsRefused) {
  EXPECT_FALSE(Checked(FilterTree()).ok());
  const FilterTree good = And({Exists("i"), Not(Exists("d"))});
  ASSERT_TRUE(IsTree(good));
  for (const std::vector<int32_t>& children :
       std::vector<std::vector<int32_t>>{{1}, {1, 1}, {1, 2, 3}, {1, 2, 0}, {1, 2, 4}, {1, -1}}) {
    FilterTree bad = good;
    bad.conditions[0].children = children;
    EXPECT_FALSE(IsTree(bad));
    EXPECT_THAT(Checked(bad), Refused("filter", "not a tree"));
  }
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
