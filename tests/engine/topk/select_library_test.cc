// Laws of a selection, for every algorithm and score type: it equals the oracle bit for bit, for
// all scores, shapes and places in memory.
#include <algorithm>
#include <cstdio>

#include "absl/strings/numbers.h"
#include "tests/engine/topk/select_fixture.h"

namespace nearfield::select {
namespace {

constexpr int kSampledCasesDefault = 300;

int SampledCasesCount() {
  int count = 0;
  if (!absl::SimpleAtoi(Environment("NEARFIELD_SELECT_CASES"), &count) || count < 1) {
    count = kSampledCasesDefault;
  }
  std::printf("%d sampled cases (NEARFIELD_SELECT_CASES)\n", count);
  return count;
}

class SelectLibraryTest : public SelectorTest {
 protected:
  // Uploads a case of this shape.
  SelectCase Uploaded(const Shape& shape, Input input) {
    const SelectCase problem = {.shape = shape, .input = input, .seed = random_.Bits()};
    EXPECT_OK(site_->Upload(MakeScores(problem)));
    return problem;
  }

  void ExpectAllTakePart(const std::vector<SelectCase>& cases) {
    for (const std::string& algorithm : algorithms_) {
      EXPECT_TRUE(std::any_of(
          cases.begin(), cases.end(),
          [&](const SelectCase& problem) { return Supports(problem.shape, algorithm); }))
          << algorithm << " supports none of the cases";
    }
  }
};

TEST_F(SelectLibraryTest, SmokeEqualsTheOracle) {
  const std::vector<SelectCase> cases = SmokeCases(random_);
  ExpectAllTakePart(cases);
  CompareAll(cases);
}

TEST_F(SelectLibraryTest, EqualsTheOracleOnEveryInputInAShortRow) {
  CompareAll(EveryInputCases({.batch = 3, .n = 3000, .k = 64}, random_));
  CompareAll(EveryInputCases({.batch = 70, .n = 4099, .k = 1000}, random_));
}

TEST_F(SelectLibraryTest, EqualsTheOracleOnEveryInputInALongRow) {
  CompareAll(EveryInputCases({.batch = 2, .n = 60'001, .k = 32}, random_));
  CompareAll(EveryInputCases({.batch = 5, .n = 60'001, .k = 2048}, random_));
}

TEST_F(SelectLibraryTest, EqualsTheOracleOnEveryInputInRowsOfManyBlocks) {
  CompareAll(EveryInputCases({.batch = 1, .n = 600'011, .k = 100}, random_));
  CompareAll(EveryInputCases({.batch = 1, .n = 600'011, .k = 4097}, random_));
}

TEST_F(SelectLibraryTest, EqualsTheOracleAtTheCorners) { CompareAll(CornerCases(random_)); }

TEST_F(SelectLibraryTest, EqualsTheOracleOnSampledShapes) {
  const std::vector<SelectCase> cases = SampledCases(SampledCasesCount(), random_);
  ExpectAllTakePart(cases);
  CompareAll(cases);
}

TEST_F(SelectLibraryTest, RaggedRowsEqualTheOracle) {
  const std::vector<SelectCase> cases = RaggedCases(SampledCasesCount(), random_);
  ExpectAllTakePart(cases);
  CompareAll(cases);
}

// Runs every pair of algorithms in sequence on one workspace: each leaves its counters as the other
// needs them.
TEST_F(SelectLibraryTest, AnyAlgorithmFollowsAnyOther) {
  const SelectCase problem = Uploaded({.batch = 3, .n = 70'001, .k = 32}, Input::kFewDistinct);
  const Answer expected = OracleAnswer(problem, MakeScores(problem));
  ASSERT_OK(ReserveFor({problem}));
  for (const std::string& first : algorithms_) {
    for (const std::string& second : algorithms_) {
      for (const std::string& algorithm : {first, second}) {
        if (!Supports(problem.shape, algorithm)) continue;
        ASSERT_OK(Compare(problem.shape, expected, Select(problem, algorithm)))
            << algorithm << " of " << first << ", " << second;
      }
    }
  }
}

TEST_F(SelectLibraryTest, TopKIsAPrefixOfTopKPlusOne) {
  for (const Input input : {Input::kNormal, Input::kFewDistinct, Input::kHalfNans}) {
    for (const ScoreType type : kScoreTypes) {
      SelectCase problem = Uploaded({.type = type, .batch = 3, .n = 20'000, .k = 1}, input);
      for (const std::string& algorithm : algorithms_) {
        for (const int64_t k : {1, 31, 32, 127, 128, 255, 256, 1023, 2047, 2048, 4096, 19'999}) {
          problem.shape.k = k + 1;
          if (!Supports(problem.shape, algorithm)) continue;
          const auto longer = Select(problem, algorithm);
          problem.shape.k = k;
          if (!Supports(problem.shape, algorithm)) continue;
          const auto shorter = Select(problem, algorithm);
          ASSERT_TRUE(longer.ok() && shorter.ok()) << algorithm << ": " << Describe(problem) << ": "
                                                   << longer.status() << shorter.status();
          Answer prefix;
          for (int64_t row = 0; row < 3; ++row) prefix.Append(*longer, row * (k + 1), k);
          ASSERT_OK(Compare(problem.shape, prefix, *shorter))
              << algorithm << ": " << Describe(problem);
        }
      }
    }
  }
}

TEST_F(SelectLibraryTest, TwentyTimesGivesTheSameBytes) {
  for (const Input input : {Input::kNormal, Input::kTwoValues, Input::kTiesAtTheThreshold}) {
    for (const Shape& shape :
         {Shape{.batch = 1, .n = 1'000'003, .k = 1000}, Shape{.batch = 133, .n = 5000, .k = 100},
          Shape{.batch = 5, .n = 100'000, .k = 2048}}) {
      const SelectCase problem = Uploaded(shape, input);
      for (const std::string& algorithm : algorithms_) {
        if (!Supports(shape, algorithm)) continue;
        const auto first = Select(problem, algorithm);
        ASSERT_OK(first) << algorithm << ": " << Describe(problem);
        for (int time = 1; time < 20; ++time) {
          ASSERT_OK(Compare(problem.shape, *first, Select(problem, algorithm)))
              << algorithm << ": " << Describe(problem);
        }
      }
    }
  }
}

TEST_F(SelectLibraryTest, ARowAloneEqualsTheRowInABatch) {
  constexpr int64_t kN = 30'001;
  constexpr int64_t kK = 500;
  const SelectCase batch = {.shape = {.type = ScoreType::kFloat16, .batch = 40, .n = kN, .k = kK},
                            .input = Input::kNormal,
                            .seed = random_.Bits()};
  const HostScores scores = MakeScores(batch);
  for (const std::string& algorithm : algorithms_) {
    if (!Supports(batch.shape, algorithm)) continue;
    ASSERT_OK(site_->Upload(scores));
    const auto all = Select(batch, algorithm);
    ASSERT_OK(all) << algorithm;
    for (const int64_t row : {0, 1, 17, 39}) {
      SelectCase alone = batch;
      alone.shape.batch = 1;
      if (!Supports(alone.shape, algorithm)) continue;
      HostScores one(alone);
      std::copy_n(scores.Row(row), kN * 2, one.Row(0));
      ASSERT_OK(site_->Upload(one));
      Answer expected;
      expected.Append(*all, row * kK, kK);
      ASSERT_OK(Compare(alone.shape, expected, Select(alone, algorithm)))
          << algorithm << " row " << row;
    }
  }
}

}  // namespace
}  // namespace nearfield::select
