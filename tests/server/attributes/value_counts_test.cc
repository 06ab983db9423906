// Tests of the counts of values: they equal those of a loop over all rows, however the rows were
// uploaded, merged and dropped.
#include "server/attributes/value_counts.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "server/attributes/posting_lists.h"
#include "tests/server/attributes/attribute_rows.h"
#include "tests/server/attributes/expected_counts.h"
#include "tests/server/attributes/filter_maker.h"
#include "tests/server/prelude.h"
#include "tests/testing/seed.h"

namespace nearfield::server {
namespace {

using testing::Random;

RowFilter BitsOf(const std::vector<uint32_t>& ordinals) {
  RowFilter bits;
  for (const uint32_t ordinal : ordinals) {
    bits.chosen.resize(std::max<size_t>(bits.chosen.size(), ordinal / 64 + 1));
    bits.chosen[ordinal / 64] |= uint64_t{1} << (ordinal % 64);
  }
  return bits;
}

// Row i has the ordinal i.
void ExpectCounts(const AttributeColumns& columns, const std::vector<PlainRow>& rows,
                  const std::vector<uint32_t>& ordinals, int64_t values_max) {
  std::vector<PlainRow> counted;
  for (const uint32_t ordinal : ordinals) counted.push_back(rows[ordinal]);
  const auto snapshot = columns.Snapshot();
  for (int32_t attribute = 0; attribute < snapshot->schema->size(); ++attribute) {
    SCOPED_TRACE(snapshot->schema->at(attribute).name);
    ASSERT_OK_AND_ASSIGN(const ValueCounts counts,
                         CountValues(*snapshot, attribute, CountedRows(BitsOf(ordinals)),
                                     {.values_max = values_max}));
    ExpectCountsOf(counts, counted, attribute, values_max);
  }
}

std::vector<uint32_t> RandomOrdinals(Random& random, int64_t rows_count) {
  const int64_t one_in = random.Between(1, 5);
  std::vector<uint32_t> ordinals;
  for (int64_t row = 0; row < rows_count; ++row) {
    if (random.OneIn(one_in)) ordinals.push_back(static_cast<uint32_t>(row));
  }
  return ordinals;
}

TEST(ValueCountsLaws, EqualThoseOfALoopOverTheRows) {
  Random random(testing::TestSeed());
  for (int round = 0; round < 200; ++round) {
    const std::vector<AttributeSpec> specs = RandomSpecs(random);
    const AttributeSchema schema = *AttributeSchema::Create(specs, {});
    const std::vector<PlainRow> rows = RandomRows(random, specs, random.Between(1, 400));
    std::vector<int64_t> sizes;
    for (int64_t left = std::ssize(rows); left > 1 && !random.OneIn(4);) {
      sizes.push_back(random.Between(1, left));
      left -= sizes.back();
    }
    const auto columns = ColumnsOf(schema, rows, sizes);
    const std::vector<uint32_t> ordinals = RandomOrdinals(random, std::ssize(rows));
    const int64_t values_max = random.OneIn(2) ? 4096 : random.Between(1, 6);
    ExpectCounts(*columns, rows, ordinals, values_max);
    while (columns->MergeStep()) {
    }
    ExpectCounts(*columns, rows, ordinals, values_max);
    if (HasFailure()) return;
  }
}

// A value with many rows has a bitmap, and the values next to it have lists.
TEST(ValueCountsLaws, CountBitmapsAndLists) {
  Random random(testing::TestSeed());
  const std::vector<AttributeSpec> specs = {{.name = "a", .type = AttributeType::kInt64}};
  const AttributeSchema schema = *AttributeSchema::Create(specs, {});
  std::vector<PlainRow> rows;
  for (uint32_t row = 0; row < 3 * PostingLists::kHeavyRows; ++row) {
    const int64_t value = random.OneIn(2) ? 50 : random.Between(0, 100);
    rows.push_back({.attributes = {std::vector<PlainValue>{value}}});
  }
  const auto columns = ColumnsOf(schema, rows, {});
  ExpectCounts(*columns, rows, RandomOrdinals(random, std::ssize(rows)), 10);
  std::vector<uint32_t> all;
  for (uint32_t row = 0; row < rows.size(); ++row) all.push_back(row);
  ExpectCounts(*columns, rows, all, 4096);
  ExpectCounts(*columns, rows, {7}, 1);
}

TEST(ValueCountsTest, NoRowHasNoValue) {
  const std::vector<AttributeSpec> specs = {{.name = "a", .type = AttributeType::kKeyword}};
  const AttributeSchema schema = *AttributeSchema::Create(specs, {});
  const AttributeColumns columns(schema);
  ExpectCounts(columns, {}, {}, 1);
}

TEST(ValueCountsTest, ACallThatNobodyWaitsForEnds) {
  const std::vector<AttributeSpec> specs = {{.name = "a", .type = AttributeType::kInt64}};
  const AttributeSchema schema = *AttributeSchema::Create(specs, {});
  const std::vector<PlainRow> rows(1, {.attributes = {std::vector<PlainValue>{int64_t{1}}}});
  const auto columns = ColumnsOf(schema, rows, {});
  EXPECT_THAT(CountValues(*columns->Snapshot(), 0, CountedRows(BitsOf({0})),
                          {.values_max = 1, .cancelled = [] { return true; }}),
              StatusIs(absl::StatusCode::kCancelled));
}

}  // namespace
}  // namespace nearfield::server
