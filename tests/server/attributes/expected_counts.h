// The counts of the values of rows by a loop over the rows, which is obviously correct.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <utility>
#include <variant>
#include <vector>

#include "server/attributes/value_counts.h"
#include "tests/server/attributes/attribute_rows.h"
#include "tests/server/prelude.h"

namespace nearfield::server {

struct ExpectedCounts {
  std::vector<std::pair<PlainValue, int64_t>> values;  // all of them, in the order of the contract
  int64_t rows_missing = 0;
};

inline ExpectedCounts CountByLoop(const std::vector<PlainRow>& rows, int32_t attribute) {
  ExpectedCounts expected;
  std::map<PlainValue, int64_t> counts;
  for (const PlainRow& row : rows) {
    const PlainAttribute& values = row.attributes[static_cast<size_t>(attribute)];
    expected.rows_missing += values.has_value() ? 0 : 1;
    if (!values.has_value()) continue;
    // The set takes -0 and +0 for one value.
    for (const PlainValue& value : std::set<PlainValue>(values->begin(), values->end())) {
      ++counts[value];
    }
  }
  expected.values.assign(counts.begin(), counts.end());
  std::stable_sort(expected.values.begin(), expected.values.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  return expected;
}

inline PlainValue PlainValueAt(const ValueColumn& values, int64_t index) {
  switch (values.type()) {
    case AttributeType::kDouble: return values.number(index);
    case AttributeType::kBool: return values.bits(index) != 0;
    case AttributeType::kKeyword: return std::string(values.keyword(index));
    default: return values.bits(index);
  }
}

inline void ExpectCountsOf(const ValueCounts& counts, const std::vector<PlainRow>& rows,
                           int32_t attribute, int64_t values_max) {
  const ExpectedCounts expected = CountByLoop(rows, attribute);
  EXPECT_EQ(counts.rows_missing, expected.rows_missing);
  EXPECT_EQ(counts.values_count, std::ssize(expected.values));
  const int64_t size = std::min(values_max, std::ssize(expected.values));
  ASSERT_EQ(counts.values.size(), size);
  ASSERT_EQ(std::ssize(counts.rows_counts), size);
  for (int64_t i = 0; i < size; ++i) {
    const auto& [value, rows_count] = expected.values[static_cast<size_t>(i)];
    EXPECT_EQ(PlainValueAt(counts.values, i), value) << "place " << i;
    EXPECT_EQ(counts.rows_counts[static_cast<size_t>(i)], rows_count) << "place " << i;
    if (counts.values.type() == AttributeType::kDouble) {
      EXPECT_FALSE(counts.values.is_negative_zero(i));
    }
  }
}

}  // namespace nearfield::server
