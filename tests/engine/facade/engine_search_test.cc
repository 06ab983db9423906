// Tests of searches: refused queries, merged generations, split batches, returned vectors and
// payloads, cancellation, and impossible answers of a backend.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "nearfield/engine/engine.h"
#include "tests/engine/prelude.h"
#include "tests/testing/fake_engine.h"

namespace nearfield::testing {
namespace {

// Rewrites the lists of the first query, as a backend does that knows the order of all rows. Rows
// of equal score come in the order of the generations.
void AppendInOrder(backend::RankedLists* best) {
  struct Row {
    backend::RankedScore ranked;
    size_t generation;
  };
  std::vector<Row> rows;
  std::vector<uint32_t> counts;
  for (size_t g = 0; g < best->generations_count(); ++g) {
    for (const backend::RankedScore& ranked : best->list(0, g)) rows.push_back({ranked, g});
    counts.push_back(static_cast<uint32_t>(best->list(0, g).size()));
  }
  std::stable_sort(rows.begin(), rows.end(),
                   [](const Row& a, const Row& b) { return a.ranked.score > b.ranked.score; });
  best->MakeRoom(0, counts);
  for (const Row& row : rows) best->Append(0, row.generation, row.ranked);
}

// Returns a search for the row nearest to a stored one.
SearchBatch BatchById(uint64_t id) {
  SearchBatch batch;
  batch.queries.push_back({.row_id = id, .k = 1});
  return batch;
}

class EngineSearchTest : public ::testing::Test {
 protected:
  std::shared_ptr<Collection> Make(const CollectionSpec& spec) {
    return *fake_.engine->CreateCollection(spec);
  }
  absl::Status SearchStatus(const Collection& collection, std::vector<Query> queries) {
    SearchBatch batch;
    batch.queries = std::move(queries);
    return fake_.engine->Search(collection, batch).status();
  }

  FakeEngine fake_ =
      MakeFakeEngine({.engine = {.host_memory_bytes = 1 << 20, .k_max = 100, .batch_max = 8}});
};

// Empty collections are validated too: the same call must not start to fail with the first row.
TEST_F(EngineSearchTest, EachWrongQueryIsNamed) {
  const auto dot = Make({.dim = 2});
  const auto cosine = Make({.dim = 2, .metric = Metric::kCosine});
  const std::vector<float> good = {1, 0};
  const std::vector<float> three = {1, 2, 3};
  const std::vector<float> nan = {0, std::nanf("")};
  const std::vector<float> inf = {-std::numeric_limits<float>::infinity(), 0};
  const std::vector<float> zero = {0.0f, -0.0f};
  struct Case {
    const Collection* collection;
    Query query;
    std::string message;
  };
  std::vector<Case> cases;
  const auto vector = [&cases](const auto& collection, absl::Span<const float> values, int32_t k,
                               std::string message) {
    cases.push_back({collection.get(), {.vector = values, .k = k}, std::move(message)});
  };
  vector(dot, good, 0, "queries[1].k = 0, must be 1 .. 100");
  vector(dot, good, -3, "queries[1].k = -3");
  vector(dot, good, 101, "queries[1].k = 101");
  vector(dot, three, 1, "queries[1].vector has 3 dimensions; the collection has 2");
  vector(dot, {}, 1, "queries[1].vector has 0 dimensions; the collection has 2");
  vector(dot, nan, 1, "queries[1].vector is not finite in dimension 1");
  vector(dot, inf, 1, "queries[1].vector is not finite in dimension 0");
  vector(cosine, zero, 1, "queries[1].vector is all zeros");
  vector(dot, good, 1, "queries[1] has both a vector and a row_id");
  cases.back().query.row_id = Id(uint64_t{1});
  vector(dot, {}, 1, "queries[1].row_id = \"x\" is of the wrong type; the ids are uint64");
  cases.back().query.row_id = Id(std::string("x"));
  for (const Case& bad : cases) {
    SCOPED_TRACE(bad.message);
    const Query fine = {.vector = good, .row_id = {}, .k = 1};
    EXPECT_THAT(SearchStatus(*bad.collection, {fine, bad.query}),
                StatusIs(kInvalidArgument, HasSubstr(bad.message)));
  }
  EXPECT_OK(SearchStatus(*dot, {{.vector = zero, .row_id = {}, .k = 1}}));
}

TEST_F(EngineSearchTest, BatchesHaveALimit) {
  const auto collection = Make({.dim = 1});
  const std::vector<float> one = {1};
  EXPECT_THAT(SearchStatus(*collection, {}),
              StatusIs(kInvalidArgument, HasSubstr("0 queries in a batch; 1 to 8")));
  EXPECT_OK(
      SearchStatus(*collection, std::vector<Query>(8, {.vector = one, .row_id = {}, .k = 1})));
  EXPECT_THAT(
      SearchStatus(*collection, std::vector<Query>(9, {.vector = one, .row_id = {}, .k = 1})),
      StatusIs(kInvalidArgument, HasSubstr("9 queries in a batch; 1 to 8")));
}

TEST_F(EngineSearchTest, ACollectionOfAnotherEngineIsRefused) {
  FakeEngine other = MakeFakeEngine();
  const auto collection = *other.engine->CreateCollection({.dim = 1});
  const std::vector<float> one = {1};
  EXPECT_THAT(SearchStatus(*collection, {{.vector = one, .row_id = {}, .k = 1}}),
              StatusIs(kInvalidArgument, HasSubstr("another engine")));
}

TEST_F(EngineSearchTest, NoRowsGiveEmptyAnswers) {
  const auto collection = Make({.dim = 2});
  const float query[2] = {1, 2};
  ASSERT_OK_AND_ASSIGN(const auto answer, SearchOne(*fake_.engine, *collection, query, 5));
  EXPECT_EQ(answer.ids.size(), 0);
  EXPECT_TRUE(answer.scores.empty());
  EXPECT_EQ(fake_.device->calls(FakeCall::kSearch), 0);
}

// Equal scores in different generations: the smaller id first, regardless of the order of uploads.
TEST_F(EngineSearchTest, TiesAcrossGenerationsGoToTheSmallerId) {
  const auto collection = Make(kPlainSpec);
  ASSERT_OK(UploadAll(*collection, PlainRows({50, 10, 40}, {1, 1, 2})));
  ASSERT_OK(UploadAll(*collection, PlainRows({30, 5}, {1, 2})));
  ASSERT_OK(UploadAll(*collection, PlainRows({20, 60}, {1, 2})));
  const float query[2] = {1, 0};
  Neighbors want;
  want.ids = Ids({5, 40, 60, 10, 20, 30, 50});
  want.scores = {2, 2, 2, 1, 1, 1, 1};
  for (const bool in_order : {false, true}) {
    if (in_order) fake_.device->CorruptAnswers(AppendInOrder);
    for (int32_t k = 1; k <= 8; ++k) {
      ASSERT_OK_AND_ASSIGN(const auto answer, SearchOne(*fake_.engine, *collection, query, k));
      EXPECT_THAT(answer, BytesEqual(Prefix(want, k)));
    }
  }
}

TEST_F(EngineSearchTest, AnyCutIntoGenerationsGivesTheSameBytes) {
  Random random(TestSeed());
  for (const CorpusFamily family : {CorpusFamily::kGaussian, CorpusFamily::kTwoValues,
                                    CorpusFamily::kMaxFinite, CorpusFamily::kZeroRows}) {
    for (const Metric metric : {Metric::kDot, Metric::kCosine, Metric::kL2}) {
      const CollectionSpec spec = {.dim = 3, .metric = metric, .id_type = IdType::kString};
      const Corpus all = MakeCorpus(spec, family, 40, random.Bits());
      const auto collection = Make(spec);
      const std::vector<int64_t> indices = AllIndices(40);
      for (int64_t begin = 0; begin < 40;) {
        const int64_t end = std::min<int64_t>(40, begin + random.Between(1, 20));
        ASSERT_OK(UploadAll(*collection, Select(all, absl::MakeConstSpan(indices).subspan(
                                                         static_cast<size_t>(begin),
                                                         static_cast<size_t>(end - begin)))));
        begin = end;
      }
      const std::vector<float> query = MakeQuery(all, QueryFamily::kGaussian, random);
      for (const bool in_order : {false, true}) {
        fake_.device->CorruptAnswers(in_order ? AppendInOrder : [](backend::RankedLists*) {});
        for (const int32_t k : {1, 7, 40, 100}) {
          ASSERT_OK_AND_ASSIGN(const auto answer, SearchOne(*fake_.engine, *collection, query, k));
          EXPECT_THAT(answer, BytesEqual(OracleAnswer(all, query, k))) << Describe(spec);
        }
      }
    }
  }
}

TEST(EngineBatches, ABatchBeyondTheLimitOfTheBackendIsSplitAndAnsweredTheSame) {
  Random random(TestSeed());
  FakeEngineOptions options;
  options.device.batch_max = 3;
  FakeEngine fake = MakeFakeEngine(options);
  const CollectionSpec spec = {.dim = 4};
  const Corpus all = MakeCorpus(spec, CorpusFamily::kGaussian, 20, random.Bits());
  const auto collection = *fake.engine->CreateCollection(spec);
  ASSERT_OK(UploadAll(*collection, all));
  std::vector<std::vector<float>> vectors;
  SearchBatch batch;
  for (int i = 0; i < 10; ++i) vectors.push_back(MakeQuery(all, QueryFamily::kGaussian, random));
  for (int i = 0; i < 10; ++i) {
    batch.queries.push_back({.vector = vectors[static_cast<size_t>(i)], .row_id = {}, .k = i + 1});
  }
  // Queries of different tiles have different filters.
  for (const size_t q : {size_t{1}, size_t{6}}) {
    batch.queries[q].filter = std::make_shared<RowFilter>(RowFilter{.chosen = {1u << q}});
  }
  ASSERT_OK_AND_ASSIGN(const auto result, fake.engine->Search(*collection, batch));
  EXPECT_EQ(fake.device->calls(FakeCall::kSearch), 4);
  EXPECT_EQ(result.cost.device_us, 4);
  EXPECT_EQ(result.cost.candidates, 8 * 20 + 2);
  EXPECT_EQ(result.cost.rows_scanned, 20);
  for (size_t i = 0; i < 10; ++i) {
    const Query& query = batch.queries[i];
    const Corpus chosen = query.filter == nullptr ? all : Select(all, {static_cast<int64_t>(i)});
    EXPECT_THAT(result.queries[i], BytesEqual(OracleAnswer(chosen, vectors[i], query.k)));
  }
}

TEST_F(EngineSearchTest, VectorsAndPayloadsBelongToTheirNeighbors) {
  const CollectionSpec spec = {.dim = 3, .row_type = RowType::kBFloat16};
  const Corpus all = MakeCorpus(spec, CorpusFamily::kBitPatterns, 30, TestSeed());
  const auto collection = Make(spec);
  const std::vector<int64_t> indices = AllIndices(30);
  for (size_t begin = 0; begin < 30; begin += 10) {
    ASSERT_OK(UploadAll(*collection, Select(all, absl::MakeConstSpan(indices).subspan(begin, 10))));
  }
  const std::vector<float> query = {1, -1, 0.5f};
  SearchBatch batch;
  batch.queries = {{.vector = query, .row_id = {}, .k = 30},
                   {.vector = query, .row_id = {}, .k = 4}};
  batch.parts = {.vectors = true, .payloads = true};
  ASSERT_OK_AND_ASSIGN(const auto result, fake_.engine->Search(*collection, batch));
  for (const Neighbors& answer : result.queries) {
    ASSERT_OK_AND_ASSIGN(const auto fetched,
                         collection->Fetch(answer.ids, {.vectors = true, .payloads = true}));
    EXPECT_EQ(answer.rows, fetched.rows);
    ASSERT_EQ(answer.payloads.size(), answer.ids.size());
    for (int64_t i = 0; i < answer.ids.size(); ++i) {
      EXPECT_EQ(answer.payloads.at(i), Payload(answer.ids.at(i)));
    }
  }
  batch.parts = {};
  ASSERT_OK_AND_ASSIGN(const auto bare, fake_.engine->Search(*collection, batch));
  EXPECT_TRUE(bare.queries[0].rows.empty());
  EXPECT_EQ(bare.queries[0].payloads.size(), 0);
}

TEST_F(EngineSearchTest, CancellationIsPolledBeforeAndDuringTheScan) {
  const auto collection = Make(kPlainSpec);
  ASSERT_OK(UploadAll(*collection, PlainRows({1}, {1})));
  const std::vector<float> query = {1, 0};
  for (int asked_max = 0; asked_max < 3; ++asked_max) {
    int asked = 0;
    SearchBatch batch;
    batch.queries = {{.vector = query, .row_id = {}, .k = 1}};
    batch.cancelled = [&] { return asked++ == asked_max; };
    EXPECT_THAT(fake_.engine->Search(*collection, batch), StatusIs(kCancelled));
  }
}

TEST_F(EngineSearchTest, ImpossibleAnswersOfABackendAreInternalErrors) {
  const auto collection = Make(kPlainSpec);
  ASSERT_OK(UploadAll(*collection, PlainRows({1, 2}, {1, 2})));
  const std::vector<float> query = {1, 0};
  const auto search = [&] { return SearchOne(*fake_.engine, *collection, query, 2).status(); };
  fake_.device->CorruptAnswers(
      [](backend::RankedLists* best) { best->Resize(0, 0, 2)[1].rank = 2; });
  EXPECT_THAT(search(), StatusIs(kInternal, HasSubstr("rank 2 of 2 rows")));
  fake_.device->CorruptAnswers([](backend::RankedLists* best) { best->Reset({}, 1); });
  EXPECT_THAT(search(), StatusIs(kInternal, HasSubstr("0 of 1 queries")));
  fake_.device->CorruptAnswers([](backend::RankedLists* best) { best->Reset({2}, 0); });
  EXPECT_THAT(search(), StatusIs(kInternal, HasSubstr("0 of 1 generations")));
  fake_.device->CorruptAnswers([](backend::RankedLists* best) { best->Resize(0, 0, 1); });
  EXPECT_THAT(search(), StatusIs(kInternal, HasSubstr("1 of 2 rows")));
  fake_.device->CorruptAnswers([](backend::RankedLists* best) {
    const absl::Span<backend::RankedScore> list = best->Resize(0, 0, 2);
    std::swap(list[0], list[1]);
  });
  EXPECT_THAT(search(), StatusIs(kInternal, HasSubstr("out of order")));
  // The same row twice, and rows with the same score in the reverse order of their ids.
  fake_.device->CorruptAnswers([](backend::RankedLists* best) {
    const absl::Span<backend::RankedScore> list = best->Resize(0, 0, 2);
    list[1] = list[0];
  });
  EXPECT_THAT(search(), StatusIs(kInternal, HasSubstr("out of order")));
  fake_.device->CorruptAnswers([](backend::RankedLists* best) {
    const absl::Span<backend::RankedScore> list = best->Resize(0, 0, 2);
    list[0] = {.score = 1, .rank = 1};
    list[1] = {.score = 1, .rank = 0};
  });
  EXPECT_THAT(search(), StatusIs(kInternal, HasSubstr("out of order")));
}

TEST_F(EngineSearchTest, RowsThatABackendAppendsOutOfOrderAreAnInternalError) {
  const auto collection = Make(kPlainSpec);
  ASSERT_OK(UploadAll(*collection, PlainRows({1}, {1})));
  ASSERT_OK(UploadAll(*collection, PlainRows({2}, {2})));
  const std::vector<float> query = {1, 0};
  fake_.device->CorruptAnswers([](backend::RankedLists* best) {
    best->MakeRoom(0, std::vector<uint32_t>{1, 1});
    best->Append(0, 0, {.score = 1, .rank = 0});
    best->Append(0, 1, {.score = 2, .rank = 0});
  });
  EXPECT_THAT(SearchOne(*fake_.engine, *collection, query, 2).status(),
              StatusIs(kInternal, HasSubstr("out of order")));
}

// A reply that is too large is refused before any of it is copied: four rows of 8 bytes here.
TEST_F(EngineSearchTest, VectorsAndPayloadsBeyondTheirLimitAreRefused) {
  const auto collection = Make(kPlainSpec);
  ASSERT_OK(UploadAll(*collection, PlainRows({1, 2, 3, 4}, {1, 2, 3, 4})));
  const float query[2] = {1, 0};
  SearchBatch batch;
  batch.queries.push_back({.vector = query, .row_id = {}, .k = 4});
  batch.parts = {.vectors = true, .bytes_max = 32};
  EXPECT_OK(fake_.engine->Search(*collection, batch).status());
  EXPECT_OK(collection->Fetch(Ids({1, 2, 3, 4}), batch.parts).status());
  const int64_t reads = fake_.device->calls(FakeCall::kRead);
  batch.parts.bytes_max = 31;
  const auto refused = StatusIs(kResourceExhausted, HasSubstr("take 32 bytes, the limit is 31"));
  EXPECT_THAT(fake_.engine->Search(*collection, batch).status(), refused);
  EXPECT_THAT(collection->Fetch(Ids({1, 2, 3, 4}), batch.parts).status(), refused);
  EXPECT_EQ(fake_.device->calls(FakeCall::kRead), reads);
  batch.parts = {.bytes_max = 1};
  EXPECT_OK(fake_.engine->Search(*collection, batch).status());
}

// A backend that merges the answers itself gives those that the engine merges: with deleted rows,
// filters, thresholds, pages and queries by id, and for answers that keep the backend's memory.
TEST(FinishedAnswersTest, EqualThoseThatTheEngineMerges) {
  Random random(TestSeed());
  for (const bool lends : {false, true}) {
    FakeEngineOptions options = {.engine = {.k_max = 40, .batch_max = 16}};
    FakeEngine merging = MakeFakeEngine(options);
    options.device.finished_rows_max = 200;
    options.device.lends = lends;
    FakeEngine finishing = MakeFakeEngine(options);
    const auto a = *merging.engine->CreateCollection(kPlainSpec);
    const auto b = *finishing.engine->CreateCollection(kPlainSpec);
    uint64_t next = 0;
    for (int generation = 0; generation < 3; ++generation) {
      std::vector<uint64_t> ids;
      std::vector<float> scores;
      for (int64_t rows = random.Between(1, 30); rows > 0; --rows) {
        ids.push_back(next++ ^ 21u);
        scores.push_back(static_cast<float>(random.Between(-3, 4)));
      }
      for (const auto& collection : {a, b}) {
        ASSERT_OK(UploadAll(*collection, PlainRows(ids, scores)));
        ASSERT_OK(collection->Delete(Ids({ids.front()})));
      }
    }
    std::vector<SearchResult> held;  // answers outlive later searches
    std::vector<SearchResult> expected;
    for (int round = 0; round < 60; ++round) {
      const std::vector<float> vector = {static_cast<float>(random.Between(1, 4)), 0};
      SearchBatch batch;
      for (int64_t queries = random.Between(1, 17); queries > 0; --queries) {
        Query query = {.vector = vector, .k = static_cast<int32_t>(random.Between(1, 20))};
        query.skip = random.OneIn(3) ? random.Between(0, 20) : 0;
        query.tell_more = random.OneIn(2);
        if (random.OneIn(3)) query.score_threshold = static_cast<float>(random.Between(-4, 4));
        if (random.OneIn(2)) {
          query.filter = std::make_shared<RowFilter>(RowFilter{.chosen = {random.Bits()}});
        }
        const uint64_t row_id =
            static_cast<uint64_t>(random.Between(0, static_cast<int64_t>(next)));
        if (random.OneIn(4) && merging.engine->Search(*a, BatchById(row_id)).ok()) {
          query.vector = {};
          query.row_id = row_id;
        }
        batch.queries.push_back(query);
      }
      ASSERT_OK_AND_ASSIGN(SearchResult want, merging.engine->Search(*a, batch));
      ASSERT_OK_AND_ASSIGN(SearchResult got, finishing.engine->Search(*b, batch));
      expected.push_back(std::move(want));
      held.push_back(std::move(got));
    }
    for (size_t i = 0; i < held.size(); ++i) {
      for (size_t q = 0; q < held[i].queries.size(); ++q) {
        EXPECT_THAT(held[i].queries[q], BytesEqual(expected[i].queries[q]));
        EXPECT_EQ(held[i].queries[q].matched_rows, expected[i].queries[q].matched_rows);
        EXPECT_EQ(held[i].queries[q].more, expected[i].queries[q].more);
      }
    }
  }
}

}  // namespace
}  // namespace nearfield::testing
