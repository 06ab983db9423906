// Tests of the filter cache: the same rows as without it, bounded memory, and never the rows of
// another state.
#include "server/attributes/filter_cache.h"

#include <memory>
#include <thread>
#include <vector>

#include "tests/server/attributes/attribute_rows.h"
#include "tests/server/attributes/filter_maker.h"
#include "tests/server/prelude.h"
#include "tests/testing/seed.h"

namespace nearfield::server {
namespace {

using testing::Random;

std::vector<uint32_t> Chosen(const RowFilter& rows) {
  return OrdinalSet::FromWords(0, rows.chosen).ToVector();
}

class FilterCacheTest : public ::testing::Test {
 protected:
  FilterCacheTest()
      : rows_(RandomRows(random_, specs_, 200)),
        schema_(*AttributeSchema::Create(specs_, {})),
        columns_(ColumnsOf(schema_, rows_, {})) {}

  Filter Valid(const FilterTree& tree) const { return Filter(tree, schema_); }
  std::vector<uint32_t> Cached(FilterCache& cache, const FilterTree& tree,
                               uint64_t ids_version = 0) {
    const auto rows =
        cache.Evaluate(Valid(tree), *columns_->Snapshot(), IdsAreOrdinals(200), ids_version);
    EXPECT_OK(rows);
    return Chosen(**rows);
  }

  Random random_{testing::TestSeed()};
  const std::vector<AttributeSpec> specs_ = RandomSpecs(random_);
  const std::vector<PlainRow> rows_;
  const AttributeSchema schema_;
  const std::unique_ptr<AttributeColumns> columns_;
};

TEST_F(FilterCacheTest, AnswersAreThoseOfNoCacheAndMemoryIsBounded) {
  FilterCache cache(20'000);
  std::vector<FilterTree> filters;
  for (int i = 0; i < 60; ++i) filters.push_back(RandomFilter(random_, specs_, 3, rows_.size()));
  for (int i = 0; i < 1500; ++i) {
    const FilterTree& filter = random_.OneOf<FilterTree>(filters);
    ASSERT_EQ(Cached(cache, filter), PassingRows(filter, specs_, rows_));
    ASSERT_LE(cache.stats().bytes, 20'000);
    ASSERT_GE(cache.stats().bytes, 256 * cache.stats().entries_count);
  }
  const FilterCache::Stats stats = cache.stats();
  EXPECT_EQ(stats.hits + stats.misses, 1500);
  EXPECT_GT(stats.hits, 0);
  EXPECT_GT(stats.evictions, 0);
}

TEST_F(FilterCacheTest, TheLeastRecentlyAskedForGoesFirst) {
  const FilterTree a = Exists(specs_[0].name);
  const FilterTree b = Not(a);
  const FilterTree c = Not(b);
  FilterCache probe(1 << 20);
  for (const FilterTree& filter : {a, b, c}) Cached(probe, filter);
  FilterCache cache(probe.stats().bytes - 1);  // one of the three is evicted
  Cached(cache, a);
  Cached(cache, b);
  Cached(cache, a);
  Cached(cache, c);
  EXPECT_EQ(cache.stats().evictions, 1);
  EXPECT_EQ(cache.stats().entries_count, 2);
  Cached(cache, a);
  EXPECT_EQ(cache.stats().hits, 2);
  Cached(cache, b);
  EXPECT_EQ(cache.stats().misses, 4);
}

TEST_F(FilterCacheTest, AnotherVersionIsAnotherAnswer) {
  FilterCache cache(1 << 20);
  const FilterTree filter = Not(And({Exists(specs_[0].name), Not(Exists(specs_[0].name))}));
  EXPECT_EQ(Cached(cache, filter).size(), rows_.size());
  AttributeChunkBuilder builder(std::make_shared<const AttributeSchema>(schema_));
  ASSERT_OK(builder.Append(BlockOf(schema_, absl::MakeConstSpan(rows_).first(1))));
  ASSERT_OK(columns_->Add(*builder.Build(200)));
  EXPECT_EQ(Cached(cache, filter).size(), rows_.size() + 1);
  EXPECT_EQ(cache.stats().hits, 0);
}

// After a delete and an upload, an id names another row. The columns do not see this.
TEST_F(FilterCacheTest, IdsAreOfTheirState) {
  FilterCache cache(1 << 20);
  IdColumn ids;
  ids.AppendNumber(7);
  const FilterTree by_id = HasId(ids);
  Cached(cache, by_id, 1);
  Cached(cache, by_id, 1);
  EXPECT_EQ(cache.stats().hits, 1);
  EvaluateOptions moved;
  moved.resolve_ids = [](const IdColumn&) {
    return OrdinalSet::FromRange({.begin = 9, .end = 10});
  };
  const auto rows = cache.Evaluate(Valid(by_id), *columns_->Snapshot(), moved, 2);
  ASSERT_OK(rows);
  EXPECT_THAT(Chosen(**rows), ::testing::ElementsAre(9));
  // A filter without ids does not depend on the state.
  Cached(cache, Exists(specs_[0].name), 1);
  Cached(cache, Exists(specs_[0].name), 2);
  EXPECT_EQ(cache.stats().hits, 2);
}

TEST_F(FilterCacheTest, NothingIsKeptOfErrorsOrWithoutMemory) {
  FilterCache none(0);
  Cached(none, Exists(specs_[0].name));
  Cached(none, Exists(specs_[0].name));
  EXPECT_EQ(none.stats().misses, 2);
  EXPECT_EQ(none.stats().entries_count, 0);
  FilterCache cache(1 << 20);
  EvaluateOptions cancelled;
  cancelled.cancelled = [] { return true; };
  EXPECT_THAT(cache.Evaluate(Valid(Exists(specs_[0].name)), *columns_->Snapshot(), cancelled, 0),
              StatusIs(kCancelled));
  EXPECT_EQ(cache.stats().entries_count, 0);
}

TEST_F(FilterCacheTest, ManyAskAtOnce) {
  FilterCache cache(8'000);
  std::vector<FilterTree> filters;
  std::vector<std::vector<uint32_t>> expected;
  for (int i = 0; i < 12; ++i) {
    filters.push_back(RandomFilter(random_, specs_, 3, rows_.size()));
    expected.push_back(PassingRows(filters.back(), specs_, rows_));
  }
  std::vector<std::thread> threads;
  for (uint64_t thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&, thread] {
      Random random(testing::TestSeed() + thread);
      for (int i = 0; i < 200; ++i) {
        const auto which = static_cast<size_t>(random.Between(0, 12));
        ASSERT_EQ(Cached(cache, filters[which]), expected[which]);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(cache.stats().hits + cache.stats().misses, 800);
  EXPECT_LE(cache.stats().bytes, 8'000);
}

}  // namespace
}  // namespace nearfield::server
