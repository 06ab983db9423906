// Tests of the collection of groups: whatever number of rows each scan returns, the groups are
// those of the whole order.
#include "server/attributes/found_groups.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "tests/server/prelude.h"
#include "tests/testing/random.h"
#include "tests/testing/seed.h"

namespace nearfield::server {
namespace {

using testing::Random;

// A row of the order: its id is its place.
using Order = std::vector<int64_t>;  // the value of each row

Neighbors RowsAt(const std::vector<size_t>& places) {
  Neighbors rows;
  for (const size_t place : places) {
    rows.ids.AppendNumber(place);
    rows.scores.push_back(-static_cast<float>(place));
    rows.ordinals.push_back(static_cast<uint32_t>(place));
  }
  return rows;
}

// Returns the first `count` rows whose value is not left out.
std::vector<size_t> Scan(const Order& order, const std::set<int64_t>& left_out, size_t count) {
  std::vector<size_t> places;
  for (size_t place = 0; place < order.size() && places.size() < count; ++place) {
    if (left_out.count(order[place]) == 0) places.push_back(place);
  }
  return places;
}

// Returns the places of the rows of each group, as the contract defines them.
std::vector<std::vector<size_t>> Expected(const Order& order, const FoundGroups::Wanted& wanted) {
  std::vector<std::vector<size_t>> groups;
  std::map<int64_t, size_t> numbers;
  for (size_t place = 0; place < order.size(); ++place) {
    const auto [number, is_new] = numbers.try_emplace(order[place], groups.size());
    if (is_new) groups.emplace_back();
    std::vector<size_t>& group = groups[number->second];
    if (std::ssize(group) < wanted.rows_max) group.push_back(place);
  }
  const int64_t end = std::min(std::ssize(groups), wanted.skip + wanted.k);
  if (wanted.skip >= end) return {};
  return {groups.begin() + wanted.skip, groups.begin() + end};
}

ValueColumn ValuesAt(const Order& order, const std::vector<size_t>& places) {
  ValueColumn values(AttributeType::kInt64);
  for (const size_t place : places) values.AppendInteger(order[place]);
  return values;
}

// Searches as the server does, with `scan_rows` rows of each scan, and fills `fills` groups
// together.
void ExpectFound(const Order& order, const FoundGroups::Wanted& wanted, size_t scan_rows,
                 size_t fills) {
  FoundGroups found(AttributeType::kInt64, IdType::kUint64, wanted);
  std::set<int64_t> left_out;
  for (int64_t scans = 0; !found.complete(); ++scans) {
    ASSERT_LE(scans, wanted.groups_max()) << "each scan finds a group";
    const std::vector<size_t> places = Scan(order, left_out, scan_rows);
    const absl::StatusOr<ValueColumn> added = found.Add(
        RowsAt(places),
        [&](int64_t begin, int64_t end) {
          return ValuesAt(order, {places.begin() + begin, places.begin() + end});
        },
        places.size() < scan_rows);
    ASSERT_OK(added);
    for (int64_t i = 0; i < added->size(); ++i) left_out.insert(added->bits(i));
  }
  // One group takes its best rows, several take all of theirs.
  const std::vector<int64_t> unfilled = found.Unfilled();
  for (size_t begin = 0; begin < unfilled.size(); begin += fills) {
    const auto groups =
        absl::MakeConstSpan(unfilled).subspan(begin, std::min(fills, unfilled.size() - begin));
    std::set<int64_t> others(order.begin(), order.end());
    for (const int64_t group : groups) others.erase(found.values().bits(group));
    const std::vector<size_t> places = Scan(
        order, others, groups.size() == 1 ? static_cast<size_t>(wanted.rows_max) : order.size());
    found.Fill(groups, RowsAt(places), ValuesAt(order, places));
  }
  const auto expected = Expected(order, wanted);
  Neighbors answer;
  const GroupColumn groups = found.Take(&answer);
  ASSERT_EQ(groups.rows_counts.size(), expected.size());
  int64_t row = 0;
  for (size_t group = 0; group < expected.size(); ++group) {
    ASSERT_EQ(groups.rows_counts[group], expected[group].size());
    EXPECT_EQ(groups.values.bits(static_cast<int64_t>(group)), order[expected[group].front()]);
    for (const size_t place : expected[group]) EXPECT_EQ(answer.ids.number(row++), place);
  }
  EXPECT_EQ(answer.ids.size(), row);
  const auto before =
      Expected(order, {.skip = 0, .k = wanted.skip, .rows_max = 1, .tell_more = false});
  ASSERT_EQ(groups.ids_before.size(), std::ssize(before));
  ASSERT_EQ(groups.values_before.size(), std::ssize(before));
  for (int64_t group = 0; group < groups.ids_before.size(); ++group) {
    const size_t best = before[static_cast<size_t>(group)].front();
    EXPECT_EQ(groups.ids_before.number(group), best);
    EXPECT_EQ(groups.values_before.bits(group), order[best]);
  }
  if (wanted.tell_more) {
    const std::set<int64_t> all(order.begin(), order.end());
    EXPECT_EQ(answer.more, std::ssize(all) > wanted.skip + wanted.k);
  }
}

TEST(FoundGroupsLaws, AreThoseOfTheWholeOrderWhateverAScanReturns) {
  Random random(testing::TestSeed());
  for (int round = 0; round < 2000; ++round) {
    SCOPED_TRACE(round);
    Order order(
        static_cast<size_t>(random.OneIn(4) ? random.Between(0, 400) : random.Between(0, 60)));
    const int64_t values = random.Between(1, 30);
    for (int64_t& value : order) {
      value = random.OneIn(3) ? 0 : random.Between(0, values);  // group 0 is large
    }
    if (random.OneIn(3)) std::sort(order.begin(), order.end());
    const FoundGroups::Wanted wanted = {.skip = random.OneIn(2) ? 0 : random.Between(0, 10),
                                        .k = random.Between(1, 12),
                                        .rows_max = static_cast<int32_t>(random.Between(1, 6)),
                                        .tell_more = random.OneIn(2)};
    ExpectFound(
        order, wanted,
        static_cast<size_t>(random.OneIn(4) ? random.Between(100, 300) : random.Between(1, 40)),
        static_cast<size_t>(random.Between(1, 5)));
    if (HasFailure()) return;
  }
}

TEST(FoundGroupsTest, ZerosAreOneGroup) {
  FoundGroups found(AttributeType::kDouble, IdType::kUint64,
                    {.skip = 0, .k = 5, .rows_max = 3, .tell_more = false});
  ValueColumn values(AttributeType::kDouble);
  for (const double value : {-0.0, 1.0, 0.0}) values.AppendDouble(value);
  ASSERT_OK(found.Add(
      RowsAt({0, 1, 2}), [&](int64_t, int64_t) { return values; }, true));
  Neighbors answer;
  const GroupColumn groups = found.Take(&answer);
  EXPECT_THAT(groups.rows_counts, ElementsAre(2, 1));
  EXPECT_FALSE(groups.values.is_negative_zero(0));
  EXPECT_THAT(answer.ordinals, ElementsAre(0, 2, 1));
}

}  // namespace
}  // namespace nearfield::server
