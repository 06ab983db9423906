// Laws of a search over a subset of the rows: filters, pages, minimum scores, earlier epochs.

#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "tests/property/laws.h"

namespace nearfield::property {
namespace {

class ChoiceLaws : public Laws {};

// Returns a filter that chooses each row with the same random probability. The ordinal of a row is
// its index in the corpus.
std::shared_ptr<const RowFilter> DrawFilter(int64_t rows_count, Random& random) {
  auto filter = std::make_shared<RowFilter>();
  const int64_t one_in = random.OneOf<int64_t>({1, 2, 3, 20, 400, 1'000'000});
  filter->chosen.resize(static_cast<size_t>(rows_count + 63) / 64);
  for (int64_t row = 0; row < rows_count; ++row) {
    if (random.OneIn(one_in))
      filter->chosen[static_cast<size_t>(row / 64)] |= uint64_t{1} << (row % 64);
  }
  // A filter may have fewer words than rows: rows past its end are not chosen.
  if (random.OneIn(4)) filter->chosen.resize(filter->chosen.size() / 2);
  return filter;
}

std::vector<int64_t> ChosenIndices(const RowFilter& filter, int64_t rows_count) {
  std::vector<int64_t> indices;
  for (int64_t row = 0; row < rows_count; ++row) {
    if (filter.Chooses(static_cast<uint32_t>(row))) indices.push_back(row);
  }
  return indices;
}

// Cuts the rows into parts that keep their order, so that the ordinal of a row is its index.
std::vector<std::vector<int64_t>> InOrder(int64_t rows_count, int64_t parts_count) {
  std::vector<std::vector<int64_t>> parts(static_cast<size_t>(parts_count));
  for (int64_t row = 0; row < rows_count; ++row) {
    parts[static_cast<size_t>(row * parts_count / rows_count)].push_back(row);
  }
  return parts;
}

TEST_P(ChoiceLaws, AFilterEqualsACollectionOfTheChosenRows) {
  ForEachCase([&](const Case& c, Random& random) {
    const int64_t rows_count = c.corpus.rows_count();
    if (rows_count == 0) return;
    ASSERT_OK_AND_ASSIGN(
        const auto collection,
        MakeCollection(engine(), c.corpus, InOrder(rows_count, random.Between(1, 4))));
    SearchBatch batch = c.Batch();
    std::vector<Neighbors> want;
    for (Query& query : batch.queries) {
      if (!want.empty() && random.OneIn(2)) {
        query.filter = batch.queries.front().filter;
      } else {
        query.filter = DrawFilter(rows_count, random);
      }
      const auto indices = ChosenIndices(*query.filter, rows_count);
      ASSERT_OK_AND_ASSIGN(const auto chosen,
                           MakeCollection(engine(), testing::Select(c.corpus, indices)));
      SearchBatch alone;
      alone.queries = {query};
      alone.queries[0].filter = nullptr;
      want.push_back(SearchOrFail(engine(), *chosen, alone).at(0));
      EXPECT_EQ(want.back().matched_rows, static_cast<int64_t>(indices.size()));
    }
    const std::vector<Neighbors> got = SearchOrFail(engine(), *collection, batch);
    ExpectAnswers(got, want);
    for (size_t q = 0; q < got.size(); ++q) EXPECT_EQ(got[q].matched_rows, want[q].matched_rows);
    // Search again, now from the filter cache; then compare with the oracle.
    ExpectAnswers(SearchOrFail(engine(), *collection, batch), want);
    ASSERT_OK_AND_ASSIGN(const auto verdict, engine().Verify(*collection,
                                                             {.query = batch.queries[0],
                                                              .neighbors = got.at(0),
                                                              .epoch = collection->Stats().epoch},
                                                             nullptr));
    EXPECT_TRUE(verdict.equal) << verdict.explanation;
  });
}

// Queries without a filter, with the same filter and with different ones, which choose no row, one
// row, some or all, in one batch with pages and deleted rows.
TEST_P(ChoiceLaws, QueriesWithDifferentFiltersShareABatch) {
  const auto law = [&](const Case& c, Random& random) {
    const int64_t rows_count = c.corpus.rows_count();
    if (rows_count < 2) return;
    ASSERT_OK_AND_ASSIGN(
        const auto collection,
        MakeCollection(engine(), c.corpus, InOrder(rows_count, random.Between(1, 6))));
    std::vector<int64_t> doomed, live;
    const int64_t dies = random.OneOf<int64_t>({3, 50, 1'000'000'000});
    for (int64_t row = 0; row < rows_count; ++row)
      (random.OneIn(dies) ? doomed : live).push_back(row);
    ASSERT_OK(collection->Delete(testing::Select(c.corpus, doomed).ids));
    SearchBatch batch = c.Batch();
    std::vector<Neighbors> want;
    std::vector<int64_t> matched;
    for (size_t q = 0; q < batch.queries.size(); ++q) {
      Query& query = batch.queries[q];
      if (q > 0 && random.OneIn(3)) {
        query.filter = batch.queries[static_cast<size_t>(random.Between(0, int64_t(q)))].filter;
      } else if (!random.OneIn(5)) {
        query.filter = DrawFilter(rows_count, random);
      }
      std::vector<int64_t> chosen;
      for (const int64_t row : live) {
        if (query.filter == nullptr || query.filter->Chooses(static_cast<uint32_t>(row))) {
          chosen.push_back(row);
        }
      }
      matched.push_back(static_cast<int64_t>(chosen.size()));
      if (random.OneIn(4)) query.skip = random.Between(0, 20);
      const Neighbors whole = testing::OracleAnswer(testing::Select(c.corpus, chosen), c.queries[q],
                                                    query.skip + query.k);
      want.push_back({.ids = IdColumn(c.corpus.spec.id_type)});
      for (int64_t place = query.skip; place < whole.ids.size(); ++place) {
        want.back().ids.AppendFrom(whole.ids, place);
        want.back().scores.push_back(whole.scores[static_cast<size_t>(place)]);
      }
    }
    for (int i = 0; i < 2; ++i) {
      const std::vector<Neighbors> got = SearchOrFail(engine(), *collection, batch);
      ExpectAnswers(got, want);
      for (size_t q = 0; q < got.size(); ++q) EXPECT_EQ(got[q].matched_rows, matched[q]);
    }
  };
  ForEachCase(law);
  // Enough rows for several stages of a GPU's scan.
  ForEachCase(2, {.rows_count = 30'000, .dim = 24, .batch = 16, .k = 10}, law);
  ForEachCase(1, {.rows_count = 20'000, .dim = 8, .batch = 64}, law);
}

TEST_P(ChoiceLaws, AFilterSeesNoDeletedRowAndSurvivesMerges) {
  ForEachCase([&](const Case& c, Random& random) {
    const int64_t rows_count = c.corpus.rows_count();
    if (rows_count < 2) return;
    ASSERT_OK_AND_ASSIGN(
        const auto collection,
        MakeCollection(engine(), c.corpus, InOrder(rows_count, random.Between(1, 6))));
    const auto filter = DrawFilter(rows_count, random);
    std::vector<int64_t> doomed;
    std::vector<int64_t> kept;
    for (int64_t row = 0; row < rows_count; ++row) {
      if (random.OneIn(3)) {
        doomed.push_back(row);
      } else if (filter->Chooses(static_cast<uint32_t>(row))) {
        kept.push_back(row);
      }
    }
    SearchBatch batch = c.Batch();
    ASSERT_OK_AND_ASSIGN(const auto chosen,
                         MakeCollection(engine(), testing::Select(c.corpus, kept)));
    const std::vector<Neighbors> want = SearchOrFail(engine(), *chosen, batch);
    for (Query& query : batch.queries) query.filter = filter;
    ASSERT_OK(collection->Delete(testing::Select(c.corpus, doomed).ids));
    ExpectAnswers(SearchOrFail(engine(), *collection, batch), want);
    for (int i = 0; i < 3; ++i) {
      ASSERT_OK(collection->Compact({.dead_share_max = 0.0, .generations_max = 1}));
      ExpectAnswers(SearchOrFail(engine(), *collection, batch), want);
    }
  });
}

TEST_P(ChoiceLaws, ADeletionOfChosenRowsDeletesNoOthers) {
  ForEachCase([&](const Case& c, Random& random) {
    const int64_t rows_count = c.corpus.rows_count();
    if (rows_count == 0) return;
    ASSERT_OK_AND_ASSIGN(
        const auto made,
        MakeCollection(engine(), c.corpus, InOrder(rows_count, random.Between(1, 6))));
    Collection& collection = *made;
    const auto before = collection.PinEpoch();
    const auto filter = DrawFilter(rows_count, random);
    const std::vector<int64_t> chosen = ChosenIndices(*filter, rows_count);
    const auto chosen_count = static_cast<int64_t>(chosen.size());
    EXPECT_EQ(*collection.CountRows(nullptr, *filter), chosen_count);
    ASSERT_OK_AND_ASSIGN(const auto deleted, collection.DeleteRows(*filter, nullptr));
    EXPECT_EQ(deleted.rows_deleted, chosen_count);
    EXPECT_EQ(deleted.epoch, before->epoch() + (chosen_count > 0 ? 1 : 0));
    if (random.OneIn(2)) {
      ASSERT_OK(collection.Compact({.dead_share_max = 0.0}));
    }
    EXPECT_EQ(*collection.CountRows(nullptr, *filter), 0);
    EXPECT_EQ(*collection.CountRows(before.get(), *filter), chosen_count);
    const RowFilter live = *collection.LiveRows(nullptr);
    const RowFilter live_before = *collection.LiveRows(before.get());
    std::vector<int64_t> left;
    for (int64_t row = 0; row < rows_count; ++row) {
      const auto ordinal = static_cast<uint32_t>(row);
      EXPECT_TRUE(live_before.Chooses(ordinal));
      EXPECT_EQ(live.Chooses(ordinal), !filter->Chooses(ordinal));
      if (!filter->Chooses(ordinal)) left.push_back(row);
    }
    const RowFilter named = *collection.RowsWithIds(nullptr, c.corpus.ids);
    const RowFilter some_named =
        *collection.RowsWithIds(before.get(), testing::Select(c.corpus, chosen).ids);
    for (int64_t row = 0; row < rows_count; ++row) {
      const auto ordinal = static_cast<uint32_t>(row);
      EXPECT_EQ(named.Chooses(ordinal), live.Chooses(ordinal));
      EXPECT_EQ(some_named.Chooses(ordinal), filter->Chooses(ordinal));
    }
    ASSERT_OK_AND_ASSIGN(const auto rest,
                         MakeCollection(engine(), testing::Select(c.corpus, left)));
    ExpectAnswers(SearchOrFail(engine(), collection, c.Batch()),
                  SearchOrFail(engine(), *rest, c.Batch()));
  });
}

TEST_P(ChoiceLaws, PagesAreTheOrderCutIntoPieces) {
  ForEachCase([&](const Case& c, Random& random) {
    ASSERT_OK_AND_ASSIGN(const auto collection, MakeCollection(engine(), c.corpus));
    SearchBatch batch;
    batch.queries = {c.Batch().queries[0]};
    Query& query = batch.queries[0];
    const auto all = static_cast<int32_t>(std::min<int64_t>(c.corpus.rows_count() + 1, 4096));
    query.k = all;
    const Neighbors whole = SearchOrFail(engine(), *collection, batch).at(0);
    for (int i = 0; i < 4; ++i) {
      query.k = static_cast<int32_t>(random.Between(1, 50));
      query.skip = random.Between(0, c.corpus.rows_count() + 3);
      if (random.OneIn(2)) query.page_cache = MakeResultPageCache(all);
      if (query.skip + query.k > all) continue;
      Neighbors want;
      want.ids = IdColumn(c.corpus.spec.id_type);
      const auto end = std::min<int64_t>(query.skip + query.k, whole.ids.size());
      for (int64_t place = query.skip; place < end; ++place) {
        want.ids.AppendFrom(whole.ids, place);
        want.scores.push_back(whole.scores[static_cast<size_t>(place)]);
      }
      ASSERT_THAT(SearchOrFail(engine(), *collection, batch).at(0), BytesEqual(want));
      if (!want.scores.empty()) {  // a minimum score ends the answer at the first lower score
        const size_t cut = static_cast<size_t>(random.Between(0, want.ids.size()));
        query.score_threshold = want.scores[cut];
        size_t kept = 0;
        while (kept < want.scores.size() && !(want.scores[kept] < *query.score_threshold)) ++kept;
        ASSERT_THAT(SearchOrFail(engine(), *collection, batch).at(0),
                    BytesEqual(testing::Prefix(want, static_cast<int64_t>(kept))));
        query.score_threshold.reset();
      }
    }
  });
}

TEST_P(ChoiceLaws, APinnedEpochAnswersAsItDid) {
  ForEachCase([&](const Case& c, Random& random) {
    ASSERT_OK_AND_ASSIGN(const auto collection, MakeCollection(engine(), c.corpus));
    SearchBatch batch = c.Batch();
    const auto pinned = collection->PinEpoch();
    const std::vector<Neighbors> before = SearchOrFail(engine(), *collection, batch);
    if (c.corpus.rows_count() > 0) {
      std::vector<int64_t> doomed;
      for (int64_t row = 0; row < c.corpus.rows_count(); ++row) {
        if (random.OneIn(2)) doomed.push_back(row);
      }
      ASSERT_OK(collection->Delete(testing::Select(c.corpus, doomed).ids));
      ASSERT_OK(collection->Compact({.dead_share_max = 0.0}));
    }
    batch.at = pinned;
    ASSERT_OK_AND_ASSIGN(const auto result, engine().Search(*collection, batch));
    EXPECT_EQ(result.epoch, pinned->epoch());
    ExpectAnswers(result.queries, before);
  });
}

NEARFIELD_ON_EVERY_BACKEND(ChoiceLaws);

}  // namespace
}  // namespace nearfield::property
