// Tests of filters over random rows: the result equals that of the slow filter, however the rows
// were uploaded.
#include "server/attributes/evaluate.h"

#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "tests/server/attributes/attribute_rows.h"
#include "tests/server/attributes/filter_maker.h"
#include "tests/server/prelude.h"
#include "tests/testing/seed.h"

namespace nearfield::server {
namespace {

using testing::Random;

std::vector<uint32_t> Evaluated(const FilterTree& tree, const AttributeColumns& columns,
                                int64_t rows_count) {
  const auto rows = Evaluate(Filter(tree, *columns.Snapshot()->schema), *columns.Snapshot(),
                             IdsAreOrdinals(rows_count));
  EXPECT_OK(rows);
  return rows->ToVector();
}

// Returns sizes of uploads that add up to at least `rows_count`.
std::vector<int64_t> RandomSizes(Random& random, int64_t rows_count) {
  std::vector<int64_t> sizes;
  for (int64_t left = rows_count; left > 0; left -= sizes.back())
    sizes.push_back(std::min(left, random.Between(1, random.OneIn(2) ? 4 : rows_count + 1)));
  return sizes;
}

struct Scene {
  explicit Scene(Random& random)
      : specs(RandomSpecs(random)),
        rows(RandomRows(random, specs, random.OneOf<int64_t>({0, 1, 2, 40, 300}))),
        schema(*AttributeSchema::Create(specs, {})) {}
  int64_t rows_count() const { return static_cast<int64_t>(rows.size()); }
  FilterTree DrawFilter(Random& random) const {
    return RandomFilter(random, specs, static_cast<int>(random.Between(1, 7)), rows.size());
  }

  std::vector<AttributeSpec> specs;
  std::vector<PlainRow> rows;
  AttributeSchema schema;
};

TEST(EvaluateLaws, EqualsTheSlowFilterHoweverTheRowsWereUploaded) {
  Random random(testing::TestSeed());
  int64_t passing = 0;
  int64_t all = 0;
  for (int round = 0; round < testing::RandomRounds(400); ++round) {
    const Scene scene(random);
    const auto whole = ColumnsOf(scene.schema, scene.rows, {});
    const auto cut = ColumnsOf(scene.schema, scene.rows, RandomSizes(random, scene.rows_count()));
    for (int i = 0; i < 20; ++i) {
      const FilterTree filter = scene.DrawFilter(random);
      if (filter.conditions.size() > 256) continue;
      const std::vector<uint32_t> expected = PassingRows(filter, scene.specs, scene.rows);
      ASSERT_EQ(Evaluated(filter, *whole, scene.rows_count()), expected)
          << absl::CHexEscape(CanonicalBytes(filter));
      ASSERT_EQ(Evaluated(filter, *cut, scene.rows_count()), expected)
          << absl::CHexEscape(CanonicalBytes(filter));
      passing += static_cast<int64_t>(expected.size());
      all += scene.rows_count();
    }
  }
  // Between 10% and 90% of all rows pass; otherwise the test would check little.
  EXPECT_GT(passing, all / 10);
  EXPECT_LT(passing, all - all / 10);
}

TEST(EvaluateLaws, DeMorganAndDoubleNegation) {
  Random random(testing::TestSeed());
  for (int round = 0; round < 60; ++round) {
    const Scene scene(random);
    const auto columns = ColumnsOf(scene.schema, scene.rows, {7, 1, 20});
    const auto rows_of = [&](const FilterTree& filter) {
      return Evaluated(filter, *columns, scene.rows_count());
    };
    const FilterTree a = RandomFilter(random, scene.specs, 3, scene.rows.size());
    const FilterTree b = RandomFilter(random, scene.specs, 3, scene.rows.size());
    EXPECT_EQ(rows_of(Not(Not(a))), rows_of(a));
    EXPECT_EQ(rows_of(Not(And({a, b}))), rows_of(Or({Not(a), Not(b)})));
    EXPECT_EQ(rows_of(Not(Or({a, b}))), rows_of(And({Not(a), Not(b)})));
    EXPECT_EQ(rows_of(And({a, Not(a)})), std::vector<uint32_t>{});
    EXPECT_EQ(rows_of(Or({a, Not(a)})).size(), scene.rows.size());
  }
}

TEST(EvaluateLaws, ManyValuesAreTheirConditionsJoined) {
  Random random(testing::TestSeed());
  for (int round = 0; round < 60; ++round) {
    const Scene scene(random);
    const auto columns = ColumnsOf(scene.schema, scene.rows, {50});
    for (const AttributeSpec& spec : scene.specs) {
      ValueColumn values(spec.type);
      for (int i = 0; i < 4; ++i) AppendRandomValue(random, &values);
      std::vector<FilterTree> single;
      for (int i = 0; i < 4; ++i) {
        single.push_back(spec.is_list ? OfValues(ConditionKind::kListAny, spec.name, One(values, i))
                                      : Compare(spec.name, Comparison::kEqual, One(values, i)));
      }
      const auto rows_of = [&](const FilterTree& filter) {
        return Evaluated(filter, *columns, scene.rows_count());
      };
      const ConditionKind any = spec.is_list ? ConditionKind::kListAny : ConditionKind::kIn;
      EXPECT_EQ(rows_of(OfValues(any, spec.name, values)), rows_of(Or(single)));
      if (spec.is_list) {
        EXPECT_EQ(rows_of(OfValues(ConditionKind::kListAll, spec.name, values)),
                  rows_of(And(single)));
      }
    }
  }
}

// One index with cuts, bitmaps and plain lists. Needs more rows than the other laws have.
TEST(EvaluateLaws, ManyRowsOfFewAndOfManyValues) {
  Random random(testing::TestSeed());
  const std::vector<AttributeSpec> specs = {{.name = "few"},
                                            {.name = "many"},
                                            {.name = "word", .type = AttributeType::kKeyword},
                                            {.name = "list", .is_list = true},
                                            {.name = "lump"}};
  const AttributeSchema schema = *AttributeSchema::Create(specs, {});
  std::vector<PlainRow> rows(300'000);
  for (PlainRow& row : rows) {
    const int64_t skewed = random.Between(0, random.Between(1, 40));
    row.attributes = {
        std::vector<PlainValue>{skewed}, std::vector<PlainValue>{random.Between(0, 1'000'000)},
        std::vector<PlainValue>{std::to_string(random.OneIn(2) ? skewed : random.Between(0, 5000))},
        std::vector<PlainValue>{skewed, random.Between(0, 3)},
        std::vector<PlainValue>{random.OneIn(2) ? 500 : random.Between(0, 1000)}};
    if (random.OneIn(9)) row.attributes[1] = std::nullopt;
  }
  const auto columns = ColumnsOf(schema, rows, {});
  for (int i = 0; i < testing::RandomRounds(60); ++i) {
    const auto comparison = static_cast<Comparison>(random.Between(0, 6));
    const int64_t value = random.Between(0, 40);
    // Adjacent values that include the value of half the rows, so that both ends are near one cut.
    std::vector<int64_t> near_lump;
    for (int64_t near = random.Between(420, 500); near <= 500 + value; ++near)
      near_lump.push_back(near);
    const FilterTree filter = random.OneOf<FilterTree>(
        {Compare("few", comparison, Integers({value})),
         Compare("many", comparison, Integers({random.Between(-10, 1'000'010)})),
         And({Compare("many", Comparison::kGreaterEqual, Integers({random.Between(0, 500'000)})),
              Compare("many", Comparison::kLess, Integers({random.Between(300'000, 900'000)}))}),
         Compare("word", comparison, Keywords({std::to_string(value * 120)})),
         OfValues(ConditionKind::kIn, "few", Integers({value, value / 2, 0, 7})),
         OfValues(ConditionKind::kIn, "lump", Integers(near_lump)),
         OfValues(ConditionKind::kListAll, "list", Integers({value / 8, 1})),
         OfValues(ConditionKind::kListAny, "list", Integers({value, 2, 30}))});
    ASSERT_EQ(Evaluated(filter, *columns, static_cast<int64_t>(rows.size())),
              PassingRows(filter, specs, rows))
        << absl::CHexEscape(CanonicalBytes(filter));
  }
}

class EvaluateMissingValuesTest : public ::testing::Test {
 protected:
  // Row 0: x = 1, tags = [a, b]. Row 1: x = 2, tags = []. Row 2: no attributes.
  EvaluateMissingValuesTest() {
    const std::vector<PlainRow> rows = {
        {.attributes = {std::vector<PlainValue>{int64_t{1}},
                        std::vector<PlainValue>{std::string("a"), std::string("b")}}},
        {.attributes = {std::vector<PlainValue>{int64_t{2}}, std::vector<PlainValue>{}}},
        {.attributes = {std::nullopt, std::nullopt}}};
    columns_ = ColumnsOf(schema_, rows, {});
  }
  std::vector<uint32_t> RowsOf(const FilterTree& filter) { return Evaluated(filter, *columns_, 3); }

  const AttributeSchema schema_ = *AttributeSchema::Create(
      {{.name = "x"}, {.name = "tags", .type = AttributeType::kKeyword, .is_list = true}}, {});
  std::unique_ptr<AttributeColumns> columns_;
};

TEST_F(EvaluateMissingValuesTest, AComparisonOfAMissingValueIsFalseAndItsNegationTrue) {
  EXPECT_THAT(RowsOf(Compare("x", Comparison::kEqual, Integers({1}))), ElementsAre(0));
  EXPECT_THAT(RowsOf(Compare("x", Comparison::kNotEqual, Integers({1}))), ElementsAre(1));
  EXPECT_THAT(RowsOf(Not(Compare("x", Comparison::kEqual, Integers({1})))), ElementsAre(1, 2));
  EXPECT_THAT(RowsOf(Not(OfValues(ConditionKind::kIn, "x", Integers({1, 2})))), ElementsAre(2));
  EXPECT_THAT(RowsOf(Exists("x")), ElementsAre(0, 1));
  EXPECT_THAT(RowsOf(Not(Exists("x"))), ElementsAre(2));
}

TEST_F(EvaluateMissingValuesTest, AnEmptyListIsThereAndHoldsNothing) {
  EXPECT_THAT(RowsOf(Exists("tags")), ElementsAre(0, 1));
  EXPECT_THAT(RowsOf(OfValues(ConditionKind::kListAny, "tags", Keywords({"a", "z"}))),
              ElementsAre(0));
  EXPECT_THAT(RowsOf(OfValues(ConditionKind::kListAll, "tags", Keywords({"b", "a", "b"}))),
              ElementsAre(0));
  EXPECT_THAT(RowsOf(OfValues(ConditionKind::kListAll, "tags", Keywords({"a", "z"}))), IsEmpty());
  EXPECT_THAT(RowsOf(Not(OfValues(ConditionKind::kListAny, "tags", Keywords({"a"})))),
              ElementsAre(1, 2));
}

TEST_F(EvaluateMissingValuesTest, ErrorsOfIdsAndCancellationEndIt) {
  IdColumn ids;
  ids.AppendNumber(1);
  const Filter filter(And({Exists("x"), HasId(ids)}), schema_);
  EvaluateOptions options;
  options.resolve_ids = [](const IdColumn&) { return absl::UnavailableError("device lost"); };
  EXPECT_THAT(Evaluate(filter, *columns_->Snapshot(), options), StatusIs(kUnavailable));
  EXPECT_THAT(Evaluate(filter, *columns_->Snapshot(), {}), StatusIs(kInternal));
  options = IdsAreOrdinals(3);
  options.cancelled = [] { return true; };
  EXPECT_THAT(Evaluate(filter, *columns_->Snapshot(), options), StatusIs(kCancelled));
}

}  // namespace
}  // namespace nearfield::server
