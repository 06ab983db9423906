// Every size next to a border, with the other sizes drawn; and all paths through the engine on the
// same inputs.

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/property/laws.h"

namespace nearfield::property {
namespace {

class EngineSizesTest : public Laws {
 protected:
  void ExpectOracleOn(const CaseWish& wish) {
    ForEachCase((CasesCount() + 9) / 10, wish, [this](const Case& c, Random& random) {
      ASSERT_OK_AND_ASSIGN(
          const auto collection,
          MakeCollection(engine(), c.corpus,
                         RandomParts(c.corpus.rows_count(), random.Between(1, 3), random)));
      ExpectAnswers(SearchOrFail(engine(), *collection, c.Batch()), c.OracleAnswers());
    });
  }
};
NEARFIELD_ON_EVERY_BACKEND(EngineSizesTest);

TEST_P(EngineSizesTest, EveryRowCountNextToABorderEqualsTheOracle) {
  for (const int64_t rows_count : kRowsBorders) ExpectOracleOn({.rows_count = rows_count});
}

TEST_P(EngineSizesTest, EveryDimensionNextToABorderEqualsTheOracle) {
  for (const int32_t dim : kDimBorders) ExpectOracleOn({.dim = dim});
}

TEST_P(EngineSizesTest, EveryBatchNextToABorderEqualsTheOracle) {
  for (const int32_t batch : kBatchBorders) ExpectOracleOn({.batch = batch});
}

TEST_P(EngineSizesTest, EveryKNextToABorderEqualsTheOracle) {
  for (const int32_t k : kKBorders) {
    ExpectOracleOn({.k = k});
    ExpectOracleOn({.rows_count = 4097, .k = k});
  }
}

// Returns the engines that this machine can run; prints which are left out, and why.
std::vector<Engine*> EnginesHere() {
  std::vector<Engine*> engines;
  for (const BackendKind kind : {BackendKind::kCpu, BackendKind::kGpu}) {
    const absl::Status usable = testing::Usable(kind);
    if (!usable.ok()) {
      std::printf("%s left out: %s\n", testing::Name(kind), std::string(usable.message()).c_str());
      continue;
    }
    const absl::StatusOr<Engine*> engine = testing::SharedEngine(kind);
    EXPECT_OK(engine);
    if (engine.ok()) engines.push_back(*engine);
  }
  return engines;
}

void ExpectSingleAndBatched(Engine& engine, const Collection& collection, const Case& c,
                            const std::vector<Neighbors>& expected) {
  ExpectAnswers(SearchOrFail(engine, collection, c.Batch()), expected);
  for (size_t query = 0; query < c.queries.size(); ++query) {
    ExpectAnswers(SearchOrFail(engine, collection, c.Batch(query)), {expected[query]});
  }
}

// Runs a case as one generation and as several, with and without deleted rows, query by query and
// as a batch.
class EveryCut {
 public:
  EveryCut(const Case& drawn, Random& random)
      : drawn_(drawn), halves_(RandomParts(drawn.corpus.rows_count(), 2, random)), c_(drawn) {
    c_.corpus = testing::Select(drawn.corpus, halves_[0]);
    expected_ = c_.OracleAnswers();
    for (const int64_t parts_count : {1, 2, kGenerationsMax}) {
      cuts_.push_back(RandomParts(c_.corpus.rows_count(), parts_count, random));
    }
    with_doomed_ = RandomParts(drawn.corpus.rows_count(), 3, random);
  }

  void ExpectOracle(Engine& engine, ScanChoice scan) {
    c_.corpus.spec.scan = drawn_.corpus.spec.scan = scan;
    for (const auto& parts : cuts_) {
      SCOPED_TRACE(absl::StrCat(parts.size(), " commits"));
      ASSERT_OK_AND_ASSIGN(const auto collection, MakeCollection(engine, c_.corpus, parts));
      ExpectSingleAndBatched(engine, *collection, c_, expected_);
    }
    SCOPED_TRACE("half of the rows deleted");
    ASSERT_OK_AND_ASSIGN(const auto collection,
                         MakeCollection(engine, drawn_.corpus, with_doomed_));
    ASSERT_OK(collection->Delete(testing::Select(drawn_.corpus, halves_[1]).ids));
    ExpectSingleAndBatched(engine, *collection, c_, expected_);
  }

 private:
  Case drawn_;
  const std::vector<std::vector<int64_t>> halves_;
  Case c_;
  std::vector<Neighbors> expected_;
  std::vector<std::vector<std::vector<int64_t>>> cuts_;
  std::vector<std::vector<int64_t>> with_doomed_;
};

// Every backend, scan and cut must give the same answer.
TEST(EnginePathsTest, GiveTheSameBytes) {
  const std::vector<Engine*> engines = EnginesHere();
  ForEachCase(CasesCount(), {}, [&](const Case& drawn, Random& random) {
    EveryCut cut(drawn, random);
    for (Engine* const engine : engines) {
      for (const ScanChoice scan : {ScanChoice::kInt8, ScanChoice::kRows}) {
        SCOPED_TRACE(Name(Way{engine->Info().backend, scan}));
        cut.ExpectOracle(*engine, scan);
      }
    }
  });
}

// Corpora larger than the oracle can check in time.
TEST(EngineBackendsTest, CpuAndGpuGiveTheSameBytes) {
  const absl::Status usable = testing::Usable(BackendKind::kGpu);
  if (!usable.ok()) GTEST_SKIP() << "only the CPU backend here: " << usable.message();
  const std::vector<Engine*> engines = EnginesHere();
  ASSERT_EQ(engines.size(), 2u);
  ForEachCase(CasesCount(), {.work_max = 100'000'000}, [&](const Case& c, Random& random) {
    const auto parts = RandomParts(c.corpus.rows_count(), random.Between(1, 4), random);
    std::vector<std::vector<Neighbors>> answers;
    for (Engine* const engine : engines) {
      ASSERT_OK_AND_ASSIGN(const auto collection, MakeCollection(*engine, c.corpus, parts));
      answers.push_back(SearchOrFail(*engine, *collection, c.Batch()));
    }
    ExpectAnswers(answers[1], answers[0]);
  });
}

}  // namespace
}  // namespace nearfield::property
