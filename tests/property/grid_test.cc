// Every size next to a border, each with the others drawn; and all paths through the engine on the
// same inputs.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/property/laws.h"

namespace nearfield::property {
namespace {

using testing::MakeCollection;
using testing::Random;

class Sizes : public Laws {
 protected:
  void ExpectOracleOn(const CaseWish& wish) {
    ForEachCase((CasesCount() + 9) / 10, wish, [this](const Case& c, Random& random) {
      const auto collection = MakeCollection(
          engine(), c.corpus, RandomParts(c.corpus.rows_count(), random.Between(1, 3), random));
      ASSERT_OK(collection);
      ExpectAnswers(SearchOrFail(engine(), **collection, c.Batch()), c.OracleAnswers());
    });
  }
};
NEARFIELD_ON_EVERY_BACKEND(Sizes);

TEST_P(Sizes, EveryRowCountNextToABorderEqualsTheOracle) {
  for (const int64_t rows_count : kRowsBorders) ExpectOracleOn({.rows_count = rows_count});
}

TEST_P(Sizes, EveryDimensionNextToABorderEqualsTheOracle) {
  for (const int32_t dim : kDimBorders) ExpectOracleOn({.dim = dim});
}

TEST_P(Sizes, EveryBatchNextToABorderEqualsTheOracle) {
  for (const int32_t batch : kBatchBorders) ExpectOracleOn({.batch = batch});
}

TEST_P(Sizes, EveryKNextToABorderEqualsTheOracle) {
  for (const int32_t k : kKBorders) {
    ExpectOracleOn({.k = k});
    ExpectOracleOn({.rows_count = 4097, .k = k});
  }
}

// The engines this machine has; says which are left out, and why.
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

// Every way to the same answer: each backend, one generation and several, with and without deleted
// rows, alone and in a batch.
TEST(AllPaths, GiveTheSameBytes) {
  const std::vector<Engine*> engines = EnginesHere();
  ForEachCase([&](const Case& drawn, Random& random) {
    const std::vector<std::vector<int64_t>> halves =
        RandomParts(drawn.corpus.rows_count(), 2, random);
    Case c = drawn;
    c.corpus = testing::Select(drawn.corpus, halves[0]);
    const testing::Corpus doomed = testing::Select(drawn.corpus, halves[1]);
    const std::vector<Neighbors> expected = c.OracleAnswers();
    const std::vector<std::vector<std::vector<int64_t>>> cuts = {
        RandomParts(c.corpus.rows_count(), 1, random),
        RandomParts(c.corpus.rows_count(), 2, random),
        RandomParts(c.corpus.rows_count(), kGenerationsMax, random)};
    const std::vector<std::vector<int64_t>> with_doomed =
        RandomParts(drawn.corpus.rows_count(), 3, random);
    for (Engine* const engine : engines) {
      const char* const backend = testing::Name(engine->Info().backend);
      for (const auto& parts : cuts) {
        SCOPED_TRACE(absl::StrCat(backend, ", ", parts.size(), " commits"));
        const auto collection = MakeCollection(*engine, c.corpus, parts);
        ASSERT_OK(collection);
        ExpectSingleAndBatched(*engine, **collection, c, expected);
      }
      SCOPED_TRACE(absl::StrCat(backend, ", half of the rows deleted"));
      const auto collection = MakeCollection(*engine, drawn.corpus, with_doomed);
      ASSERT_OK(collection);
      ASSERT_OK((*collection)->Delete(doomed.ids));
      ExpectSingleAndBatched(*engine, **collection, c, expected);
    }
  });
}

// Larger than the oracle could check in time.
TEST(Backends, CpuAndGpuGiveTheSameBytes) {
  const absl::Status usable = testing::Usable(BackendKind::kGpu);
  if (!usable.ok()) GTEST_SKIP() << "only the CPU backend here: " << usable.message();
  const std::vector<Engine*> engines = EnginesHere();
  ASSERT_EQ(engines.size(), 2u);
  ForEachCase(CasesCount(), {.work_max = 100'000'000}, [&](const Case& c, Random& random) {
    const auto parts = RandomParts(c.corpus.rows_count(), random.Between(1, 4), random);
    std::vector<std::vector<Neighbors>> answers;
    for (Engine* const engine : engines) {
      const auto collection = MakeCollection(*engine, c.corpus, parts);
      ASSERT_OK(collection);
      answers.push_back(SearchOrFail(*engine, **collection, c.Batch()));
    }
    ExpectAnswers(answers[1], answers[0]);
  });
}

}  // namespace
}  // namespace nearfield::property
