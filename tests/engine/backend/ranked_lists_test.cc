// Tests RankedLists: lists that share a block do not touch each other, order keys become rows, and
// the block is reused.
#include "engine/backend/ranked_lists.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/score/order.h"

namespace nearfield::backend {
namespace {

std::vector<uint32_t> RanksOf(absl::Span<const RankedScore> list) {
  std::vector<uint32_t> ranks;
  for (const RankedScore& row : list) ranks.push_back(row.rank);
  return ranks;
}

TEST(RankedListsTest, FullListsDoNotTouchTheirNeighbors) {
  RankedLists lists;
  const std::vector<int32_t> k = {1, 3, 2};  // room for three rows in every list
  lists.Reset(k, 2);
  ASSERT_EQ(lists.queries_count(), 3u);
  ASSERT_EQ(lists.generations_count(), 2u);
  for (size_t q = 0; q < 3; ++q) {
    for (size_t g = 0; g < 2; ++g) {
      EXPECT_TRUE(lists.list(q, g).empty());
      for (uint32_t i = 0; i < 3; ++i) {
        lists.Append(q, g, {.score = 1.0f, .rank = static_cast<uint32_t>(100 * q + 10 * g) + i});
      }
    }
  }
  for (uint32_t q = 0; q < 3; ++q) {
    for (uint32_t g = 0; g < 2; ++g) {
      const uint32_t first = 100 * q + 10 * g;
      EXPECT_EQ(RanksOf(lists.list(q, g)), (std::vector<uint32_t>{first, first + 1, first + 2}));
    }
  }
  lists.Resize(1, 1, 1);
  EXPECT_EQ(RanksOf(lists.list(1, 1)), (std::vector<uint32_t>{110}));
  EXPECT_EQ(lists.list(2, 0).size(), 3u);
}

TEST(RankedListsTest, ListsOfOneQueryMayLieTogether) {
  RankedLists lists;
  lists.Reset({3, 3}, 3);
  lists.Assign(1, 0, std::vector<uint64_t>{score::OrderKey(1.0f, 5)});
  const std::vector<uint32_t> room = {2, 0, 3};
  lists.MakeRoom(0, room);
  for (uint32_t rank = 0; rank < 3; ++rank) {  // in any order of the generations
    lists.Append(0, 2, {.score = 1.0f, .rank = 20 + rank});
    if (rank < 2) lists.Append(0, 0, {.score = 1.0f, .rank = rank});
  }
  EXPECT_EQ(RanksOf(lists.list(0, 0)), (std::vector<uint32_t>{0, 1}));
  EXPECT_TRUE(lists.list(0, 1).empty());
  EXPECT_EQ(RanksOf(lists.list(0, 2)), (std::vector<uint32_t>{20, 21, 22}));
  EXPECT_EQ(lists.list(0, 2).data(), lists.list(0, 0).data() + 2);
  EXPECT_EQ(lists.order(0), (std::vector<uint8_t>{2, 0, 2, 0, 2}));
  EXPECT_TRUE(lists.order(1).empty());
  EXPECT_EQ(RanksOf(lists.list(1, 0)), (std::vector<uint32_t>{5}));
}

TEST(RankedListsTest, ConvertsOrderKeysToRows) {
  RankedLists lists;
  lists.Reset({2}, 1);
  const std::vector<uint64_t> keys = {score::OrderKey(2.5f, 7), score::OrderKey(-1.0f, 0)};
  lists.Assign(0, 0, keys);
  ASSERT_EQ(RanksOf(lists.list(0, 0)), (std::vector<uint32_t>{7, 0}));
  EXPECT_EQ(lists.list(0, 0)[0].score, 2.5f);
  EXPECT_EQ(lists.list(0, 0)[1].score, -1.0f);
}

// A caller that searches repeatedly allocates memory once.
TEST(RankedListsTest, ASmallerSearchReusesTheBlockAndStartsEmpty) {
  RankedLists lists;
  lists.Reset({4, 4}, 2);
  const RankedScore* const block = lists.Resize(0, 0, 4).data();
  lists.Reset({2, 1}, 3);
  EXPECT_EQ(lists.list(0, 0).data(), block);
  for (size_t g = 0; g < 3; ++g) EXPECT_TRUE(lists.list(1, g).empty());
}

}  // namespace
}  // namespace nearfield::backend
