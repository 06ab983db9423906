#include "nearfield/engine/id_column.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <string>
#include <variant>

namespace nearfield {
namespace {

TEST(IdColumn, NumbersCompareAsUnsigned) {
  const uint64_t max = std::numeric_limits<uint64_t>::max();
  const IdColumn ids = IdColumn::OfNumbers({0, 1, uint64_t{1} << 63, max});
  for (int64_t i = 0; i < ids.size(); ++i) {
    for (int64_t j = 0; j < ids.size(); ++j) {
      EXPECT_EQ(ids.Compare(i, ids, j), i < j ? -1 : (i > j ? 1 : 0)) << i << " " << j;
    }
  }
}

TEST(IdColumn, StringsCompareBytewise) {
  IdColumn ids(IdType::kString);
  // In order: zero bytes are compared, a prefix comes first, bytes above 127 come last.
  const std::string in_order[] = {
      std::string("\0", 1), std::string("\0\0", 2), "A", "a", "aa", "b", "\x7f", "\x80", "\xff"};
  for (const std::string& id : in_order) ids.AppendString(id);
  for (int64_t i = 0; i < ids.size(); ++i) {
    for (int64_t j = 0; j < ids.size(); ++j) {
      const int compared = ids.Compare(i, ids, j);
      EXPECT_EQ(compared < 0, i < j) << i << " " << j;
      EXPECT_EQ(compared == 0, i == j) << i << " " << j;
    }
  }
}

TEST(IdColumn, GivesBackWhatWasAppended) {
  IdColumn numbers(IdType::kUint64);
  numbers.Append(Id(uint64_t{17}));
  numbers.AppendFrom(numbers, 0);
  EXPECT_EQ(numbers.size(), 2);
  EXPECT_EQ(std::get<uint64_t>(numbers.at(1)), 17u);

  IdColumn strings(IdType::kString);
  EXPECT_TRUE(strings.empty());
  strings.Append(Id(std::string("first")));
  strings.AppendString("");
  // Appends ids from the same column: its bytes move during the append.
  for (int i = 0; i < 100; ++i) strings.AppendFrom(strings, 0);
  EXPECT_EQ(strings.size(), 102);
  EXPECT_EQ(strings.string(1), "");
  EXPECT_EQ(std::get<std::string>(strings.at(101)), "first");
  EXPECT_GE(strings.bytes(), 102 * 8 + 101 * 5);
}

TEST(IdColumn, ACopyHoldsNoMoreThanItsValues) {
  IdColumn ids(IdType::kUint64);
  ids.Reserve(1000);
  EXPECT_EQ(ids.bytes(), 8000);
  ids.AppendNumber(1);
  const IdColumn copy(ids);  // NOLINT(performance-unnecessary-copy-initialization): it is the point
  EXPECT_EQ(copy.bytes(), 8);
}

}  // namespace
}  // namespace nearfield
