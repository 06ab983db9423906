// Laws of a search over one corpus that does not change.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/score/score.h"
#include "tests/property/laws.h"

namespace nearfield::property {
namespace {

class SearchLaws : public Laws {};
NEARFIELD_ON_EVERY_BACKEND(SearchLaws);

TEST_P(SearchLaws, AnswersEqualTheOracleToTheBit) {
  ForEachCase([this](const Case& c, Random&) {
    ASSERT_OK_AND_ASSIGN(const auto collection, MakeCollection(engine(), c.corpus));
    ExpectAnswers(SearchOrFail(engine(), *collection, c.Batch()), c.OracleAnswers());
  });
}

TEST_P(SearchLaws, ABatchEqualsItsQueriesOneByOne) {
  ForEachCase([this](const Case& c, Random&) {
    ASSERT_OK_AND_ASSIGN(const auto collection, MakeCollection(engine(), c.corpus));
    std::vector<Neighbors> one_by_one;
    for (size_t query = 0; query < c.queries.size(); ++query) {
      std::vector<Neighbors> answer = SearchOrFail(engine(), *collection, c.Batch(query));
      ASSERT_EQ(answer.size(), 1u);
      one_by_one.push_back(std::move(answer[0]));
    }
    ExpectAnswers(SearchOrFail(engine(), *collection, c.Batch()), one_by_one);
  });
}

TEST_P(SearchLaws, TopKIsAPrefixOfEveryLongerAnswer) {
  ForEachCase([this](const Case& c, Random& random) {
    ASSERT_OK_AND_ASSIGN(const auto collection, MakeCollection(engine(), c.corpus));
    SearchBatch batch;
    for (const int32_t k : {1, 2, c.k[0], static_cast<int32_t>(random.Between(1, 200))}) {
      for (const int32_t longer : {k, std::min(k + 1, kKMax), kKMax}) {
        batch.queries.push_back({.vector = c.queries[0], .row_id = std::nullopt, .k = longer});
      }
    }
    const std::vector<Neighbors> answers = SearchOrFail(engine(), *collection, batch);
    ASSERT_EQ(answers.size(), batch.queries.size());
    for (size_t i = 0; i < answers.size(); i += 3) {
      const int32_t k = batch.queries[i].k;
      EXPECT_THAT(answers[i], BytesEqual(testing::Prefix(answers[i + 1], k))) << "k = " << k;
      EXPECT_THAT(answers[i], BytesEqual(testing::Prefix(answers[i + 2], k))) << "k = " << k;
    }
  });
}

TEST_P(SearchLaws, TwiceGivesTheSameBytes) {
  ForEachCase([this](const Case& c, Random&) {
    ASSERT_OK_AND_ASSIGN(const auto collection, MakeCollection(engine(), c.corpus));
    const std::vector<Neighbors> first = SearchOrFail(engine(), *collection, c.Batch());
    for (int i = 0; i < 4; ++i)
      ExpectAnswers(SearchOrFail(engine(), *collection, c.Batch()), first);
  });
}

// A query by id scores against the stored row and excludes that row from the answer.
TEST_P(SearchLaws, AQueryByIdIsTheRowsVectorOverTheOtherRows) {
  ForEachCase(CasesCount(), {.batch = 1}, [this](const Case& c, Random& random) {
    ASSERT_OK_AND_ASSIGN(const auto collection, MakeCollection(engine(), c.corpus));
    const int64_t row = random.Between(0, c.corpus.rows_count());
    const std::vector<float> vector = testing::Decode(c.corpus.spec, c.corpus.row(row));
    const SearchBatch batch{
        .queries = {{.vector = {}, .row_id = c.corpus.ids.at(row), .k = c.k[0]}},
        .parts = {},
        .cancelled = nullptr};
    const bool zero =
        std::all_of(vector.begin(), vector.end(), [](float value) { return value == 0.0f; });
    if (zero && c.corpus.spec.metric == Metric::kCosine) {
      EXPECT_THAT(engine().Search(*collection, batch), StatusIs(kInvalidArgument));
      return;
    }
    std::vector<int64_t> others = testing::AllIndices(c.corpus.rows_count());
    others.erase(others.begin() + row);
    const Corpus rest = testing::Select(c.corpus, others);
    ExpectAnswers(SearchOrFail(engine(), *collection, batch), {OracleAnswer(rest, vector, c.k[0])});
  });
}

TEST_P(SearchLaws, RowsAndPayloadsComeBackAsUploaded) {
  ForEachCase([this](const Case& c, Random&) {
    ASSERT_OK_AND_ASSIGN(const auto collection, MakeCollection(engine(), c.corpus));
    SearchBatch batch = c.Batch(0);
    batch.parts = {.vectors = true, .payloads = true};
    const std::vector<Neighbors> answers = SearchOrFail(engine(), *collection, batch);
    ASSERT_EQ(answers.size(), 1u);
    const Neighbors& answer = answers[0];
    ASSERT_OK_AND_ASSIGN(const FetchResult fetched,
                         collection->Fetch(answer.ids, {.vectors = true, .payloads = true}));
    EXPECT_EQ(answer.rows, fetched.rows);
    ASSERT_EQ(answer.payloads.size(), answer.ids.size());
    ASSERT_EQ(fetched.payloads.size(), answer.ids.size());
    ASSERT_EQ(static_cast<int64_t>(answer.rows.size()), answer.ids.size() * c.corpus.row_bytes());
    for (int64_t i = 0; i < answer.ids.size(); ++i) {
      ASSERT_EQ(answer.payloads.at(i), testing::PayloadOf(answer.ids, i));
      ASSERT_EQ(fetched.payloads.at(i), testing::PayloadOf(answer.ids, i));
      const std::vector<uint8_t> row(answer.rows.begin() + i * c.corpus.row_bytes(),
                                     answer.rows.begin() + (i + 1) * c.corpus.row_bytes());
      const std::vector<float> query = c.queries[0];
      const Corpus one{
          .spec = c.corpus.spec, .rows = row, .ids = MakeIds(c.corpus.spec.id_type, 1, 1)};
      ASSERT_EQ(score::BitsFromFloat(OracleAnswer(one, query, 1).scores[0]),
                score::BitsFromFloat(answer.scores[static_cast<size_t>(i)]))
          << "the row is not the one scored";
    }
  });
}

TEST_P(SearchLaws, VerifyAcceptsTheAnswerAndNothingElse) {
  ForEachCase(CasesCount(), {.batch = 1}, [this](const Case& c, Random& random) {
    ASSERT_OK_AND_ASSIGN(const auto collection, MakeCollection(engine(), c.corpus));
    ASSERT_OK_AND_ASSIGN(const SearchResult result, engine().Search(*collection, c.Batch()));
    const Query query = c.Batch().queries[0];
    const Neighbors& answer = result.queries[0];
    const auto verify = [&](const Neighbors& claimed) {
      return engine().Verify(
          *collection, {.query = query, .neighbors = claimed, .epoch = result.epoch}, nullptr);
    };
    ASSERT_OK_AND_ASSIGN(const VerifyResult accepted, verify(answer));
    EXPECT_TRUE(accepted.equal) << accepted.explanation;
    EXPECT_EQ(accepted.rows_checked, c.corpus.rows_count());
    EXPECT_EQ(accepted.first_difference, -1);
    EXPECT_THAT(answer, BytesEqual(accepted.expected));

    const int64_t place = random.Between(0, answer.ids.size());
    Neighbors wrong_score = testing::Prefix(answer, answer.ids.size());
    float& score = wrong_score.scores.Mutable()[static_cast<size_t>(place)];
    score = score::FloatFromBits(score::BitsFromFloat(score) ^ 1u);
    ASSERT_OK_AND_ASSIGN(const VerifyResult refused, verify(wrong_score));
    EXPECT_FALSE(refused.equal);
    EXPECT_EQ(refused.first_difference, place);
    EXPECT_NE(refused.explanation, "");

    ASSERT_OK_AND_ASSIGN(const VerifyResult short_answer,
                         verify(testing::Prefix(answer, answer.ids.size() - 1)));
    EXPECT_FALSE(short_answer.equal);
    EXPECT_EQ(short_answer.first_difference, answer.ids.size() - 1);
  });
}

TEST_P(SearchLaws, AnEmptyCorpusHasEmptyAnswers) {
  for (const Metric metric : {Metric::kDot, Metric::kCosine, Metric::kL2}) {
    for (const IdType id_type : {IdType::kUint64, IdType::kString}) {
      const Corpus none = MakeCorpus(
          {.dim = 33, .metric = metric, .row_type = RowType::kFloat16, .id_type = id_type},
          CorpusFamily::kGaussian, 0, 1);
      ASSERT_OK_AND_ASSIGN(const auto collection, MakeCollection(engine(), none));
      const std::vector<float> query(33, 1.0f);
      SearchBatch batch;
      batch.queries.assign(3, {.vector = query, .row_id = std::nullopt, .k = kKMax});
      for (const Neighbors& answer : SearchOrFail(engine(), *collection, batch)) {
        EXPECT_EQ(answer.ids.size(), 0);
        EXPECT_EQ(answer.ids.type(), id_type);
      }
    }
  }
}

TEST_P(SearchLaws, TheSelfTestPasses) { EXPECT_OK(engine().SelfTest(7)); }

}  // namespace
}  // namespace nearfield::property
