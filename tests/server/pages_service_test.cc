// Tests of the pages of one search over a real channel: complete and counted.
#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "tests/server/pages_fixture.h"
#include "tests/server/server_fixture.h"

namespace nearfield::server {
namespace {

// Regression: SearchAll ended silently at page_rows_max rows, 100,000 by default.
TEST_F(PagesServiceTest, SearchAllGoesOnBehindTheLastRowThatSearchReaches) {
  Set(settings_.k_max, "16");
  Set(settings_.page_rows_max, "40");
  ServeCorpus(300);
  const Pages pages = All(For(1));
  ASSERT_OK(pages.status);
  EXPECT_THAT(pages.all, testing::BytesEqual(Oracle(1, 300)));
  EXPECT_EQ(pages.sizes.size(), 19u);  // 18 of 16 rows, and 12
  EXPECT_EQ(pages.next_cursor, "") << "complete";

  pb::SearchRequest small = For(-1, 7);
  const Pages part = All(small, 100);
  EXPECT_THAT(part.all, testing::BytesEqual(Oracle(-1, 100)));
  EXPECT_EQ(part.sizes.size(), 15u);
  ASSERT_NE(part.next_cursor, "") << "rows follow";
  small.set_cursor(part.next_cursor);
  const Pages rest = All(small);
  ASSERT_OK(rest.status);
  EXPECT_EQ(rest.sizes.size(), 29u);  // 28 of 7 rows, and 4
  Pages both = part;
  for (int64_t i = 0; i < rest.all.ids.size(); ++i) {
    both.all.ids.AppendFrom(rest.all.ids, i);
    both.all.scores.push_back(rest.all.scores[static_cast<size_t>(i)]);
  }
  EXPECT_THAT(both.all, testing::BytesEqual(Oracle(-1, 300)));
}

TEST_F(PagesServiceTest, SearchAllGivesMoreThanAHundredThousandRows) {
  ServeCorpus(101'000);
  const Pages pages = All(For(1));
  ASSERT_OK(pages.status);
  EXPECT_EQ(pages.sizes.size(), 25u);
  EXPECT_THAT(pages.all, testing::BytesEqual(Oracle(1, 101'000)));
}

// A page of Search that ends at page_rows_max reports so, and a cursor after that row is refused.
TEST_F(PagesServiceTest, SearchSaysWhereItsLimitCutsTheOrder) {
  Set(settings_.k_max, "16");
  Set(settings_.page_rows_max, "40");
  ServeCorpus(41);
  pb::SearchRequest search = For(1, 16);
  const Pages pages = OneByOne(search);
  EXPECT_THAT(pages.sizes, ElementsAre(16, 16, 8));
  search.set_cursor(All(search, 32).next_cursor);
  const auto last = CallOk(&Retrieval::Search, search);
  EXPECT_EQ(last.results(0).scores_size(), 8);
  EXPECT_TRUE(last.results(0).cut());
  EXPECT_FALSE(last.results(0).has_next_cursor());

  search.set_k(8);
  search.clear_cursor();
  search.set_cursor(All(search, 40).next_cursor);
  EXPECT_THAT(Search(search),
              RefusedWith(kInvalidArgument, "cursor: after 40 rows", "page_rows_max is 40"));
  EXPECT_THAT(All(search).sizes, ElementsAre(1));
}

TEST_F(PagesServiceTest, SearchIsNotCutWhereTheLimitIsTheLastRow) {
  Set(settings_.page_rows_max, "40");
  ServeCorpus(40);
  pb::SearchRequest search = For(1, 20);
  EXPECT_THAT(OneByOne(search).sizes, ElementsAre(20, 20));
  search.set_with_cursor(true);
  search.set_k(40);
  const auto response = CallOk(&Retrieval::Search, search);
  EXPECT_FALSE(response.results(0).cut());
}

// Regression: a query by row_id (its own row was counted) or with a threshold (rows below it were
// counted) got a cursor after its last row. SearchAll then sent an empty page.
TEST_F(PagesServiceTest, NoPageFollowsTheLastRowOfTheAnswer) {
  Set(settings_.k_max, "16");
  ServeCorpus(33);
  pb::SearchRequest own = For(1);
  own.mutable_queries(0)->mutable_row_id()->set_number(5);
  const std::vector<std::pair<uint32_t, std::vector<int>>> cases = {
      {16, {16, 16}}, {8, {8, 8, 8, 8}}, {15, {15, 15, 2}}, {11, {11, 11, 10}}};
  for (const auto& [k, sizes] : cases) {
    own.set_k(k);
    EXPECT_EQ(OneByOne(own).sizes, sizes) << k;
    EXPECT_EQ(All(own).sizes, sizes) << k;
  }
  const Neighbors order = Oracle(1, 33);
  for (const int64_t place : {0, 7, 15, 16, 31, 32}) {
    pb::SearchRequest search = For(1);
    search.set_score_threshold(order.scores[static_cast<size_t>(place)]);
    const auto rows = std::count_if(order.scores.begin(), order.scores.end(),
                                    [&](float score) { return score >= search.score_threshold(); });
    for (const int64_t k : {rows, rows - 1, rows / 2, rows + 1, int64_t{1}}) {
      if (k < 1 || k > 16) continue;
      search.set_k(static_cast<uint32_t>(k));
      const Pages pages = All(search);
      EXPECT_THAT(pages.all, testing::BytesEqual(testing::Prefix(order, rows)));
      EXPECT_EQ(static_cast<int64_t>(pages.sizes.size()), (rows + k - 1) / k) << rows << " " << k;
      EXPECT_EQ(OneByOne(search).sizes, pages.sizes) << rows << " " << k;
    }
  }
}

TEST_F(PagesServiceTest, MatchedRowsLeavesTheOwnRowOut) {
  ServeCorpus(20);
  pb::SearchRequest own = For(1);
  own.mutable_queries(0)->mutable_row_id()->set_number(5);
  own.set_filter_text("id in (3, 5, 9)");
  pb::SearchResponse response;
  ASSERT_OK(Search(own, &response));
  EXPECT_EQ(response.results(0).matched_rows(), 2u);
  own.set_filter_text("id == 3");
  ASSERT_OK(Search(own, &response));
  EXPECT_EQ(response.results(0).matched_rows(), 1u);
}

// Regression: min_epoch with a cursor waited for an epoch to which the page does not belong.
TEST_F(PagesServiceTest, ACursorReadsItsOwnEpoch) {
  ServeCorpus(20);
  pb::SearchRequest search = For(1, 5);
  search.set_cursor(CursorBehind(search));
  CommitRow(1000);
  search.set_min_epoch(1);
  const auto response = CallOk(&Retrieval::Search, search);
  EXPECT_EQ(response.epoch(), 1u);
  search.set_min_epoch(2);
  EXPECT_THAT(Search(search),
              RefusedWith(kInvalidArgument, "min_epoch: 2, the cursor is of epoch 1"));
  search.set_min_epoch(99);
  EXPECT_THAT(All(search).status, RefusedWith(kInvalidArgument, "search.min_epoch: 99"));
}

TEST_F(PagesServiceTest, SearchAllNamesTheFieldsOfItsSearch) {
  ServeCorpus(20);
  pb::SearchRequest search = For(1);
  search.set_k(0);
  EXPECT_THAT(All(search).status, RefusedWith(kInvalidArgument, "search.k = 0"));
  search = For(1);
  search.mutable_queries(0)->mutable_vector()->add_values(1);
  EXPECT_THAT(All(search).status, RefusedWith(kInvalidArgument, "search.queries[0]."));
  search = For(1);
  search.set_cursor("x");
  EXPECT_THAT(All(search).status, RefusedWith(kInvalidArgument, "search.cursor: 1 bytes"));
  EXPECT_THAT(All(For(1), 0).status, RefusedWith(kInvalidArgument, "results_max = 0"));
  search = For(1);
  search.add_queries();
  EXPECT_THAT(All(search).status, RefusedWith(kInvalidArgument, "search.queries = 2"));
  search.clear_collection();
  EXPECT_THAT(Search(search), RefusedWith(kNotFound, "collection: no collection \"\""));
}

}  // namespace
}  // namespace nearfield::server
