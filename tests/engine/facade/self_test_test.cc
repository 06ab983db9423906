
#include <cmath>
#include <cstddef>
#include <functional>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "nearfield/engine/engine.h"
#include "tests/engine/prelude.h"
#include "tests/testing/fake_engine.h"

namespace nearfield::testing {
namespace {

using backend::RankedLists;
using backend::RankedScore;

TEST(SelfTest, PassesOnARightBackendAndLeavesNoMemoryTaken) {
  const FakeEngine fake = MakeFakeEngine();
  for (uint64_t i = 0; i < 5; ++i) EXPECT_OK(fake.engine->SelfTest(TestSeed() + i));
  EXPECT_EQ(fake.engine->GetCapacity().device_bytes_used, 0);
  EXPECT_EQ(fake.engine->GetCapacity().host_bytes_used, 0);
}

TEST(SelfTest, PassesWithTheSmallestLimits) {
  FakeEngineOptions options;
  options.engine.k_max = 1;
  options.engine.batch_max = 1;
  EXPECT_OK(MakeFakeEngine(options).engine->SelfTest(TestSeed()));
}

// Returns a query's list in the first generation, to be changed.
absl::Span<RankedScore> FirstList(RankedLists* best, size_t query) {
  const RankedLists& lists = *best;
  return best->Resize(query, 0, lists.list(query, 0).size());
}

// The injected faults keep every list complete and in order, so only the comparison with the oracle
// detects them.
void LoseFirstRow(RankedLists* best) {
  for (size_t q = 0; q < best->queries_count(); ++q) {
    const absl::Span<RankedScore> list = FirstList(best, q);
    float& last = list.back().score;
    const float below = std::nextafter(last, -std::numeric_limits<float>::infinity());
    if (below == last) continue;
    std::copy(list.begin() + 1, list.end(), list.begin());
    last = below;  // else the same row twice in succession
  }
}

void RaiseFirstScore(RankedLists* best) {
  for (size_t q = 0; q < best->queries_count(); ++q) {
    float& score = FirstList(best, q)[0].score;
    score = std::nextafter(score, std::numeric_limits<float>::infinity());
  }
}

void SwapRowsOfDifferentScores(RankedLists* best) {
  for (size_t q = 0; q < best->queries_count(); ++q) {
    const absl::Span<RankedScore> list = FirstList(best, q);
    const auto score = [&](size_t i) { return list[i].score; };
    for (size_t i = 1; i < list.size(); ++i) {
      const bool first_of_its_score = i == 1 || score(i - 2) != score(i - 1);
      const bool last_of_its_score = i + 1 == list.size() || score(i) != score(i + 1);
      if (score(i - 1) == score(i) || !first_of_its_score || !last_of_its_score) continue;
      std::swap(list[i - 1].rank, list[i].rank);
      break;
    }
  }
}

TEST(SelfTest, FindsEachKindOfWrongAnswer) {
  const std::vector<std::pair<std::string, std::function<void(RankedLists*)>>> faults = {
      {"a row lost", LoseFirstRow},
      {"a score one ulp away", RaiseFirstScore},
      {"two rows with each other's score", SwapRowsOfDifferentScores},
  };
  for (const auto& [name, corrupt] : faults) {
    const FakeEngine fake = MakeFakeEngine();
    fake.device->CorruptAnswers(corrupt);
    EXPECT_THAT(fake.engine->SelfTest(TestSeed()),
                StatusIs(kDataLoss, HasSubstr("self-test: a wrong answer (dot, float32")))
        << name;
  }
}

TEST(SelfTest, PassesOnTheErrorsOfTheDevice) {
  const FakeEngine fake = MakeFakeEngine();
  fake.device->FailAt(FakeCall::kSearch, 7, absl::InternalError("scripted"));
  EXPECT_THAT(fake.engine->SelfTest(TestSeed()), StatusIs(kInternal));
}

}  // namespace
}  // namespace nearfield::testing
