// Tests of the numbers that row terms read: those of the rows, shared, and within their memory.
#include "server/attributes/number_columns.h"

#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <utility>
#include <variant>
#include <vector>

#include "tests/server/attributes/attribute_rows.h"
#include "tests/server/attributes/filter_maker.h"
#include "tests/server/prelude.h"
#include "tests/testing/seed.h"

namespace nearfield::server {
namespace {

using testing::Random;

constexpr int64_t kRows = 700;

// Returns the number that the contract gives to an attribute of a row; nullopt if it has none.
std::optional<double> NumberOf(const PlainAttribute& attribute) {
  if (!attribute.has_value()) return std::nullopt;
  const PlainValue& value = attribute->front();
  if (const auto* number = std::get_if<int64_t>(&value)) return static_cast<double>(*number);
  if (const auto* number = std::get_if<bool>(&value)) return *number ? 1.0 : 0.0;
  return std::get<double>(value);
}

class NumberColumnsTest : public ::testing::Test {
 protected:
  NumberColumnsTest()
      : rows_(RandomRows(random_, specs_, kRows)),
        schema_(*AttributeSchema::Create(specs_, {})),
        columns_(ColumnsOf(schema_, rows_, {100, 1, 250})) {}

  std::shared_ptr<const RowNumbers> Get(NumberColumns& numbers, int32_t attribute) {
    auto column = numbers.Get(*columns_->Snapshot(), attribute, nullptr);
    EXPECT_OK(column);
    return column.ok() ? *std::move(column) : nullptr;
  }
  void ExpectNumbersOfRows(const RowNumbers& column, int32_t attribute) {
    for (uint32_t row = 0; row < rows_.size(); ++row) {
      const std::optional<double> want =
          NumberOf(rows_[row].attributes[static_cast<size_t>(attribute)]);
      const double got = column.at(row);
      if (want.has_value()) {
        ASSERT_EQ(got, *want) << row;
      } else {
        ASSERT_TRUE(std::isnan(got)) << row;
      }
    }
    EXPECT_TRUE(std::isnan(column.at(kRows)));
  }

  Random random_{testing::TestSeed()};
  const std::vector<AttributeSpec> specs_ = {{.name = "count", .type = AttributeType::kInt64},
                                             {.name = "price", .type = AttributeType::kDouble},
                                             {.name = "fresh", .type = AttributeType::kBool},
                                             {.name = "made", .type = AttributeType::kTimestamp}};
  const std::vector<PlainRow> rows_;
  const AttributeSchema schema_;
  const std::unique_ptr<AttributeColumns> columns_;
};

TEST_F(NumberColumnsTest, AColumnHasTheNumberOfEachRow) {
  NumberColumns numbers(1 << 20);
  for (int merge = 0; merge < 2; ++merge) {
    for (int32_t attribute = 0; attribute < schema_.size(); ++attribute) {
      SCOPED_TRACE(specs_[static_cast<size_t>(attribute)].name);
      const auto column = Get(numbers, attribute);
      ASSERT_NE(column, nullptr);
      ExpectNumbersOfRows(*column, attribute);
    }
    columns_->MergeSmall();
  }
}

TEST_F(NumberColumnsTest, LargeIntegersAreRoundedToNearest) {
  EXPECT_EQ(ValueColumn::NumberOf(AttributeType::kInt64, (int64_t{1} << 53) + 1), 0x1p53);
  EXPECT_EQ(ValueColumn::NumberOf(AttributeType::kInt64, (int64_t{1} << 53) + 3), 0x1p53 + 4);
  EXPECT_EQ(ValueColumn::NumberOf(AttributeType::kTimestamp, INT64_MIN), -0x1p63);
  EXPECT_EQ(ValueColumn::NumberOf(AttributeType::kInt64, INT64_MAX), 0x1p63);
}

TEST_F(NumberColumnsTest, CallersShareAColumnUntilTheVersionChanges) {
  NumberColumns numbers(1 << 20);
  const auto before = Get(numbers, 1);
  EXPECT_EQ(Get(numbers, 1), before);
  EXPECT_EQ(numbers.Find(*columns_->Snapshot(), 1), before);
  EXPECT_EQ(numbers.Find(*columns_->Snapshot(), 0), nullptr);
  const auto old = columns_->Snapshot();
  AttributeChunkBuilder builder(std::make_shared<const AttributeSchema>(schema_));
  ASSERT_OK(builder.Append(BlockOf(schema_, absl::MakeConstSpan(rows_).first(1))));
  ASSERT_OK(columns_->Add(*builder.Build(kRows)));
  EXPECT_EQ(numbers.Find(*columns_->Snapshot(), 1), nullptr);
  const auto after = Get(numbers, 1);
  EXPECT_NE(after, before);
  EXPECT_EQ(std::isnan(after->at(kRows)), std::isnan(before->at(0)));
  EXPECT_EQ(numbers.Find(*old, 1), before);
}

TEST_F(NumberColumnsTest, TheMemoryOfColumnsInUseIsBounded) {
  const int64_t column_bytes = RowNumbers::BytesOf(kRows);
  NumberColumns numbers(2 * column_bytes);
  // The least recently used column makes room.
  ASSERT_NE(Get(numbers, 0), nullptr);
  ASSERT_NE(Get(numbers, 1), nullptr);
  ASSERT_NE(Get(numbers, 0), nullptr);
  ASSERT_NE(Get(numbers, 2), nullptr);
  EXPECT_EQ(numbers.bytes(), 2 * column_bytes);
  EXPECT_EQ(numbers.Find(*columns_->Snapshot(), 1), nullptr);
  EXPECT_NE(numbers.Find(*columns_->Snapshot(), 0), nullptr);
  // Columns in use count although they are not kept.
  auto first = Get(numbers, 0);
  auto second = Get(numbers, 1);
  const auto refused = numbers.Get(*columns_->Snapshot(), 2, nullptr);
  EXPECT_THAT(refused, StatusIs(absl::StatusCode::kResourceExhausted,
                                HasSubstr("memory for the numbers of row terms")));
  EXPECT_EQ(numbers.bytes(), 2 * column_bytes);
  second.reset();
  const auto third = Get(numbers, 2);
  ASSERT_NE(third, nullptr);
  ExpectNumbersOfRows(*third, 2);
  ExpectNumbersOfRows(*first, 0);
}

TEST_F(NumberColumnsTest, ACancelledCallLeavesNothing) {
  NumberColumns numbers(1 << 20);
  const auto column = numbers.Get(*columns_->Snapshot(), 0, [] { return true; });
  EXPECT_THAT(column, StatusIs(absl::StatusCode::kCancelled));
  EXPECT_EQ(numbers.bytes(), 0);
}

}  // namespace
}  // namespace nearfield::server
