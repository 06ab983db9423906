#include "engine/corpus/id_order.h"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/engine/prelude.h"

namespace nearfield::corpus {
namespace {

// Draws ids from a small set, so that some occur twice.
IdColumn FewIds(IdType type, int64_t count, int64_t different, Random& random) {
  IdColumn ids(type);
  for (int64_t i = 0; i < count; ++i) {
    const auto number = static_cast<uint64_t>(random.Between(0, different));
    if (type == IdType::kUint64) {
      ids.AppendNumber(number);
    } else {
      ids.AppendString("a common prefix " + std::to_string(number));
    }
  }
  return ids;
}

class IdOrder : public ::testing::TestWithParam<IdType> {};

TEST_P(IdOrder, IsTheStableSort) {
  Random random(TestSeed());
  for (int64_t size : {0, 1, 2, 3, 17, 300}) {
    for (const IdColumn& ids : {MakeIds(GetParam(), size, random.Bits()),
                                FewIds(GetParam(), size, std::max<int64_t>(1, size / 2), random)}) {
      std::vector<uint32_t> want(static_cast<size_t>(size));
      std::iota(want.begin(), want.end(), 0u);
      std::stable_sort(want.begin(), want.end(),
                       [&](uint32_t a, uint32_t b) { return ids.Compare(a, ids, b) < 0; });
      const std::vector<uint32_t> order = OrderById(ids);
      EXPECT_EQ(order, want);
      const std::vector<uint32_t> place = Inverse(order);
      for (size_t i = 0; i < order.size(); ++i) EXPECT_EQ(place[order[i]], i);
    }
  }
}

TEST_P(IdOrder, FindsADoubleExactlyWhereThereIsOne) {
  Random random(TestSeed() + 1);
  int doubles = 0;
  for (int round = 0; round < 200; ++round) {
    const IdColumn ids = FewIds(GetParam(), 8, 40, random);
    std::set<Id> different;
    for (int64_t i = 0; i < ids.size(); ++i) different.insert(ids.at(i));
    const std::optional<uint32_t> found = FindDouble(ids, OrderById(ids));
    EXPECT_EQ(found.has_value(), different.size() < 8);
    if (!found) continue;
    ++doubles;
    int64_t times = 0;
    for (int64_t i = 0; i < ids.size(); ++i) times += ids.at(i) == ids.at(*found) ? 1 : 0;
    EXPECT_GE(times, 2);
  }
  EXPECT_GT(doubles, 0);
}

TEST_P(IdOrder, SharedIdsAreTheIntersection) {
  Random random(TestSeed() + 2);
  for (const auto& [a_size, b_size] : std::vector<std::pair<int64_t, int64_t>>{
           {0, 5}, {5, 0}, {1, 1000}, {1000, 1}, {30, 1000}, {1000, 30}, {200, 200}}) {
    const IdColumn a = FewIds(GetParam(), a_size, 1500, random);  // duplicates are allowed here
    IdColumn b(GetParam());
    std::set<Id> in_b;
    const IdColumn drawn = FewIds(GetParam(), b_size, 1500, random);
    for (int64_t i = 0; i < drawn.size(); ++i) {
      if (in_b.insert(drawn.at(i)).second) b.AppendFrom(drawn, i);
    }
    const std::vector<uint32_t> a_order = OrderById(a);
    const std::vector<uint32_t> b_order = OrderById(b);
    std::vector<uint32_t> visited;
    ForEachShared({.ids = &a, .order = a_order}, {.ids = &b, .order = b_order},
                  [&](uint32_t a_index, uint32_t b_index) {
                    EXPECT_EQ(a.at(a_index), b.at(b_index));
                    visited.push_back(a_index);
                    return true;
                  });
    std::vector<uint32_t> want;
    for (const uint32_t index : a_order) {
      if (in_b.count(a.at(index)) > 0) want.push_back(index);
    }
    EXPECT_EQ(visited, want) << a_size << " beside " << b_size;
  }
}

TEST_P(IdOrder, AVisitMayStop) {
  const IdColumn ids = MakeIds(GetParam(), 20, TestSeed());
  const std::vector<uint32_t> order = OrderById(ids);
  int visits = 0;
  ForEachShared({.ids = &ids, .order = order}, {.ids = &ids, .order = order},
                [&](uint32_t, uint32_t) { return ++visits < 3; });
  EXPECT_EQ(visits, 3);
}

INSTANTIATE_TEST_SUITE_P(IdTypes, IdOrder, ::testing::Values(IdType::kUint64, IdType::kString));

TEST(IdText, NamesNumbersAndEscapesStrings) {
  EXPECT_EQ(IdText(Id(uint64_t{18446744073709551615u})), "18446744073709551615");
  EXPECT_EQ(IdText(Id(std::string("a\"b\n"))), "\"a\\\"b\\n\"");
}

}  // namespace
}  // namespace nearfield::corpus
