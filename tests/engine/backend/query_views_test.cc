// Tests how the queries of a search that see different rows are grouped, and which of them share a
// pass.
#include "engine/backend/query_views.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace nearfield::backend {
namespace {

class FixedTombstones final : public Tombstones {
 public:
  explicit FixedTombstones(std::vector<uint64_t> words) : words_(std::move(words)) {}
  absl::Span<const uint64_t> words() const override { return words_; }

 private:
  const std::vector<uint64_t> words_;
};

TEST(QueryViewsTest, QueriesOfOneSpanAreOneGroup) {
  const std::vector<GenerationView> searched = {{.rows_live = 7}, {.rows_live = 2}};
  const std::vector<GenerationView> some = {{.rows_live = 3}, {.rows_live = 0}};
  const std::vector<GenerationView> equal = some;
  const std::vector<int32_t> k(5, 1);
  const std::vector<Views> views = {some, searched, some, equal, searched};
  const std::vector<ViewGroup> groups = GroupByViews(searched, {.k = k, .views = views});
  ASSERT_EQ(groups.size(), 3u);
  EXPECT_EQ(groups[0].queries, (std::vector<int64_t>{0, 2}));
  EXPECT_EQ(groups[1].queries, (std::vector<int64_t>{1, 4}));
  EXPECT_EQ(groups[2].queries, (std::vector<int64_t>{3}));
  EXPECT_EQ(RowsLive(groups[0].views), 3);
  EXPECT_EQ(GroupByViews(searched, {.k = k}).size(), 1u);
}

TEST(QueryViewsTest, AQueryWithoutALiveRowSeesNoneWhateverTheTombstonesSay) {
  const FixedTombstones tombstones({0b10});
  EXPECT_TRUE(AbsentRows({.tombstones = &tombstones, .rows_live = 0}).Holds(0));
  EXPECT_TRUE(AbsentRows({.rows_live = 0}).Holds(5));
  EXPECT_FALSE(AbsentRows({.tombstones = &tombstones, .rows_live = 1}).Holds(0));
  EXPECT_TRUE(AbsentRows({.tombstones = &tombstones, .rows_live = 1}).Holds(1));
  EXPECT_FALSE(AbsentRows({.rows_live = 1}).Holds(0));
}

// Returns, for groups with these times of their own and one query each, the own times of those that
// are searched on their own, where a shared pass takes 100 and 10 for each query.
std::vector<double> OwnTimesOfThoseAlone(const std::vector<double>& own_us) {
  std::vector<ViewGroup> groups;
  for (const double us : own_us) groups.push_back({.own_us = us, .work = 1});
  const size_t alone = DivideGroups(groups, [](double work) { return 100 + 10 * work; });
  std::vector<double> times;
  for (size_t i = 0; i < alone; ++i) times.push_back(groups[i].own_us);
  return times;
}

TEST(QueryViewsTest, GroupsAreAloneIfThatTakesLessTime) {
  using Times = std::vector<double>;
  EXPECT_EQ(OwnTimesOfThoseAlone({110, 110}), Times());
  EXPECT_EQ(OwnTimesOfThoseAlone({110, 5, 110}), Times({5}));
  EXPECT_EQ(OwnTimesOfThoseAlone({60, 50}), Times({50, 60}));
  EXPECT_EQ(OwnTimesOfThoseAlone({60, 61}), Times());
  EXPECT_EQ(OwnTimesOfThoseAlone({0, 200, 20, 20}), Times({0}));
}

}  // namespace
}  // namespace nearfield::backend
