// Tests of searches with row terms through the engine: refusals, the oracle's verdict, and the
// number of searches on a backend that does not compute terms.

#include <cstdint>
#include <functional>
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

constexpr float kVector[2] = {1.0f, 0.0f};

class EngineRowTermsTest : public ::testing::Test {
 protected:
  // Adds rows with ids 0 .. rows_count-1, whose scores fall with their ids.
  void Upload(int64_t rows_count) {
    std::vector<uint64_t> ids;
    std::vector<float> values;
    for (int64_t id = 0; id < rows_count; ++id) {
      ids.push_back(static_cast<uint64_t>(id));
      values.push_back(static_cast<float>(rows_count - id));
    }
    ASSERT_OK(UploadAll(*collection_, PlainRows(ids, values)));
  }

  // Returns a query whose only term is `parameters` over these numbers.
  Query WithTerm(const TermParameters& parameters, std::vector<double> numbers) {
    auto terms = std::make_shared<RowTerms>();
    terms->terms.push_back(
        {.parameters = parameters, .numbers = std::make_shared<RowNumbers>(std::move(numbers))});
    return {.vector = kVector, .k = 3, .terms = terms};
  }
  absl::StatusOr<Neighbors> Answer(const Query& query) {
    SearchBatch batch;
    batch.queries = {query};
    auto result = fake_.engine->Search(*collection_, batch);
    if (!result.ok()) return result.status();
    return std::move(result->queries[0]);
  }

  FakeEngine fake_ = MakeFakeEngine();
  std::shared_ptr<Collection> collection_ = *fake_.engine->CreateCollection(kPlainSpec);
};

TEST_F(EngineRowTermsTest, AParameterOutOfRangeIsNamed) {
  Upload(3);
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const double nan = std::numeric_limits<double>::quiet_NaN();
  struct Case {
    const char* error;
    std::function<void(RowTerms&)> break_it;
  };
  const std::vector<Case> cases = {
      {"queries[0].terms.score_weight = 0", [](RowTerms& t) { t.score_weight = 0; }},
      {"queries[0].terms.score_weight = -1", [](RowTerms& t) { t.score_weight = -1; }},
      {"queries[0].terms.score_weight = nan", [&](RowTerms& t) { t.score_weight = nan; }},
      {"queries[0].terms.score_weight = 1.84467e+19", [](RowTerms& t) { t.score_weight = 0x1p64; }},
      {"terms[0].weight = nan", [&](RowTerms& t) { t.terms[0].parameters.weight = nan; }},
      {"terms[0].weight = -1.84467e+19",
       [](RowTerms& t) { t.terms[0].parameters.weight = -0x1p64; }},
      {"terms[0].origin = inf", [](RowTerms& t) { t.terms[0].parameters.origin = kInfinity; }},
      {"terms[0].scale = 1.84467e+19", [](RowTerms& t) { t.terms[0].parameters.scale = 0x1p64; }},
      {"terms[0].low = -inf", [](RowTerms& t) { t.terms[0].parameters.low = -kInfinity; }},
      {"terms[0].high = nan", [&](RowTerms& t) { t.terms[0].parameters.high = nan; }},
      {"terms[0].offset = inf", [](RowTerms& t) { t.terms[0].parameters.offset = kInfinity; }},
      {"terms[0].missing = 1.84467e+19",
       [](RowTerms& t) { t.terms[0].parameters.missing = 0x1p64; }},
      {"terms[0].low = 2, must be at most high = 1",
       [](RowTerms& t) {
         t.terms[0].parameters.form = TermForm::kClamped;
         t.terms[0].parameters.low = 2;
         t.terms[0].parameters.high = 1;
       }},
      {"terms[0].scale = -1, must be at least 0",
       [](RowTerms& t) {
         t.terms[0].parameters.form = TermForm::kHalfLife;
         t.terms[0].parameters.scale = -1;
       }},
      {"terms[0].offset = -1, must be at least 0",
       [](RowTerms& t) {
         t.terms[0].parameters.form = TermForm::kHalfLife;
         t.terms[0].parameters.offset = -1;
       }},
      {"terms[0].form = 9 is none",
       [](RowTerms& t) { t.terms[0].parameters.form = static_cast<TermForm>(9); }},
      {"terms[0] has no numbers", [](RowTerms& t) { t.terms[0].numbers = nullptr; }},
      {"terms[0] has no filter", [](RowTerms& t) { t.terms[0].parameters.form = TermForm::kIs; }},
      {"queries[0].terms: 17 terms; at most 16",
       [](RowTerms& t) { t.terms.assign(kTermsMax + 1, t.terms[0]); }},
  };
  for (const Case& c : cases) {
    Query query = WithTerm({}, {1, 2, 3});
    auto terms = std::make_shared<RowTerms>(*query.terms);
    c.break_it(*terms);
    query.terms = terms;
    EXPECT_THAT(Answer(query), StatusIs(kInvalidArgument, HasSubstr(c.error)));
  }
  EXPECT_OK(Answer(WithTerm({}, {1, 2, 3})));
}

TEST_F(EngineRowTermsTest, VerifyComparesFinalScores) {
  Upload(4);  // scores 4, 3, 2, 1
  const Query query = WithTerm({.weight = 2}, {0, 0, 0, 5});
  Neighbors right;
  right.ids = Ids({3, 0, 1});
  right.scores = {11, 4, 3};
  ASSERT_OK_AND_ASSIGN(const Neighbors answer, Answer(query));
  EXPECT_THAT(answer, BytesEqual(right));
  const auto verify = [&](const Query& claimed, const Neighbors& neighbors) {
    const auto verdict = fake_.engine->Verify(
        *collection_, {.query = claimed, .neighbors = neighbors, .epoch = 1}, nullptr);
    EXPECT_OK(verdict);
    return verdict.ok() && verdict->equal;
  };
  EXPECT_TRUE(verify(query, right));
  Query without = query;
  without.terms = nullptr;
  EXPECT_FALSE(verify(without, right));
  ASSERT_OK_AND_ASSIGN(const Neighbors plain, Answer(without));
  EXPECT_FALSE(verify(query, plain));
}

// The device does not compute terms, so rows are taken in the order of their scores.
TEST_F(EngineRowTermsTest, TermsThatCannotLiftOtherRowsCostOneSearch) {
  constexpr int64_t kRows = 5'000;
  Upload(kRows);
  std::vector<double> numbers(kRows);
  for (int64_t row = 0; row < kRows; ++row)
    numbers[static_cast<size_t>(row)] = 0.01 * static_cast<double>(row % 7);
  const int64_t before = fake_.device->calls(FakeCall::kSearch);
  ASSERT_OK_AND_ASSIGN(const Neighbors answer, Answer(WithTerm({}, numbers)));
  EXPECT_EQ(answer.ids.size(), 3);
  EXPECT_EQ(fake_.device->calls(FakeCall::kSearch), before + 1);
}

TEST_F(EngineRowTermsTest, OnlyRowsThatTermsCanLiftAreSearchedAgain) {
  constexpr int64_t kRows = 5'000;
  Upload(kRows);
  std::vector<double> numbers(kRows);
  numbers[4'990] = 1e6;
  numbers[4'991] = 4'999.0;  // its final score is that of the best row without terms, plus 8
  const int64_t before = fake_.device->calls(FakeCall::kSearch);
  ASSERT_OK_AND_ASSIGN(const Neighbors answer, Answer(WithTerm({}, numbers)));
  Neighbors right;
  right.ids = Ids({4'990, 4'991, 0});
  right.scores = {1e6f + 10, 5'008, 5'000};
  EXPECT_THAT(answer, BytesEqual(right));
  EXPECT_EQ(fake_.device->calls(FakeCall::kSearch), before + 2);
}

// The first search ends among rows of one score. One that follows has the final score of the last
// row of the answer, and a smaller id.
TEST_F(EngineRowTermsTest, ARowThatTiesWithTheLastOneIsNotLeftOut) {
  constexpr uint64_t kRows = 1'000;
  std::vector<uint64_t> ids = {10'000, 10'001, 10'002};
  std::vector<float> values = {1'000, 999, 998};
  for (uint64_t id = 3; id < kRows; ++id) {
    ids.push_back(id);
    values.push_back(500);
  }
  ASSERT_OK(UploadAll(*collection_, PlainRows(ids, values)));
  std::vector<double> numbers(kRows);
  numbers[600] = 498.0;
  ASSERT_OK_AND_ASSIGN(const Neighbors answer, Answer(WithTerm({}, numbers)));
  Neighbors right;
  right.ids = Ids({10'000, 10'001, 600});
  right.scores = {1'000, 999, 998};
  EXPECT_THAT(answer, BytesEqual(right));
}

// Many equal scores, and terms that change the order a little, much or not at all.
TEST_F(EngineRowTermsTest, EveryOrderByScoresLeadsToTheBestFinalScores) {
  Random random(TestSeed());
  for (int round = 0; round < 40; ++round) {
    auto fake = MakeFakeEngine();
    const auto collection = *fake.engine->CreateCollection(kPlainSpec);
    const int64_t rows_count = random.Between(1, 1'500);
    std::vector<uint64_t> ids;
    std::vector<float> values;
    for (int64_t id = 0; id < rows_count; ++id) {
      ids.push_back(static_cast<uint64_t>(id));
      values.push_back(static_cast<float>(random.Between(0, 20)));
    }
    ASSERT_OK(UploadAll(*collection, PlainRows(ids, values)));
    const double magnitude = random.OneOf<double>({0.01, 1.0, 100.0});
    std::vector<double> numbers;
    for (int64_t row = 0; row < rows_count; ++row) {
      numbers.push_back(magnitude * static_cast<double>(random.Between(-3, 4)));
    }
    SearchBatch batch;
    batch.queries = {WithTerm({}, numbers)};
    batch.queries[0].k = static_cast<int32_t>(random.Between(1, 20));
    ASSERT_OK_AND_ASSIGN(const SearchResult answer, fake.engine->Search(*collection, batch));
    ASSERT_OK_AND_ASSIGN(
        const VerifyResult verdict,
        fake.engine->Verify(
            *collection,
            {.query = batch.queries[0], .neighbors = answer.queries[0], .epoch = answer.epoch},
            nullptr));
    ASSERT_TRUE(verdict.equal) << verdict.explanation;
  }
}

TEST_F(EngineRowTermsTest, ADeviceWithoutMemoryForTheNumbersIsAskedForScores) {
  fake_ = MakeFakeEngine({.device = {.row_terms = true}});
  collection_ = *fake_.engine->CreateCollection(kPlainSpec);
  Upload(4);  // scores 4, 3, 2, 1
  fake_.device->FailAt(FakeCall::kSearch, 1, absl::ResourceExhaustedError("no memory for numbers"));
  ASSERT_OK_AND_ASSIGN(const Neighbors answer, Answer(WithTerm({.weight = 2}, {0, 0, 0, 5})));
  Neighbors right;
  right.ids = Ids({3, 0, 1});
  right.scores = {11, 4, 3};
  EXPECT_THAT(answer, BytesEqual(right));
}

}  // namespace
}  // namespace nearfield::testing
