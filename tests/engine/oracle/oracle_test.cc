// Tests of the oracle: the order of rows, the number of results, and merged answers of chunks.
#include "engine/oracle/oracle.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "engine/score/neighbor_order.h"
#include "engine/score/score.h"
#include "tests/engine/prelude.h"

namespace nearfield::oracle {
namespace {

Rows RowsOf(const Corpus& corpus) {
  return {.dim = corpus.spec.dim,
          .metric = corpus.spec.metric,
          .row_type = corpus.spec.row_type,
          .data = corpus.rows.data(),
          .ids = &corpus.ids};
}

bool IdLess(const IdColumn& ids, int64_t a, int64_t b) {
  if (ids.type() == IdType::kUint64) return ids.number(a) < ids.number(b);
  const std::string x(ids.string(a));
  const std::string y(ids.string(b));
  return std::lexicographical_compare(x.begin(), x.end(), y.begin(), y.end(), [](char c, char d) {
    return static_cast<unsigned char>(c) < static_cast<unsigned char>(d);
  });
}

// Returns the number of rows that come before `row`: higher score, then smaller id.
int64_t PlaceOf(const Corpus& corpus, const std::vector<float>& scores, int64_t row) {
  int64_t before = 0;
  for (int64_t other = 0; other < corpus.rows_count(); ++other) {
    const float a = scores[static_cast<size_t>(other)];
    const float b = scores[static_cast<size_t>(row)];
    if (a > b || (a == b && IdLess(corpus.ids, other, row))) ++before;
  }
  return before;
}

TEST(Oracle, PutsEveryRowWhereTheContractSays) {
  Random random(TestSeed());
  for (const CorpusFamily family : testing::kCorpusFamilies) {
    for (const Metric metric : {Metric::kDot, Metric::kCosine, Metric::kL2}) {
      for (const RowType row_type : {RowType::kFloat32, RowType::kFloat16, RowType::kBFloat16}) {
        const CollectionSpec spec{.dim = static_cast<int32_t>(random.Between(1, 70)),
                                  .metric = metric,
                                  .row_type = row_type,
                                  .id_type = random.OneIn(2) ? IdType::kString : IdType::kUint64};
        SCOPED_TRACE(std::string(testing::Name(family)) + ", " + testing::Describe(spec));
        const Corpus corpus = MakeCorpus(spec, family, random.Between(1, 60), random.Bits());
        const std::vector<float> query =
            MakeQuery(corpus, random.OneOf<QueryFamily>(testing::kQueryFamilies), random);
        std::vector<float> scores;
        for (int64_t row = 0; row < corpus.rows_count(); ++row) {
          scores.push_back(Score(metric, row_type, query, corpus.row(row).data()));
        }
        const Answer answer = TopK(RowsOf(corpus), query, corpus.rows_count());
        ASSERT_EQ(answer.rows.size(), static_cast<size_t>(corpus.rows_count()));
        for (size_t place = 0; place < answer.rows.size(); ++place) {
          const int64_t row = answer.rows[place];
          ASSERT_EQ(PlaceOf(corpus, scores, row), static_cast<int64_t>(place));
          ASSERT_EQ(score::BitsFromFloat(answer.scores[place]),
                    score::BitsFromFloat(scores[static_cast<size_t>(row)]));
        }
      }
    }
  }
}

TEST(Oracle, GivesNoMoreThanKAndNoMoreThanThereAre) {
  const CollectionSpec spec{.dim = 3};
  const Corpus corpus = MakeCorpus(spec, CorpusFamily::kGaussian, 5, 1);
  const std::vector<float> query = {1.0f, 2.0f, 3.0f};
  const Neighbors all = OracleAnswer(corpus, query, 5);
  for (int64_t k = 0; k <= 7; ++k) {
    const Neighbors some = OracleAnswer(corpus, query, k);
    EXPECT_EQ(some.ids.size(), std::min<int64_t>(k, 5));
    EXPECT_THAT(some, BytesEqual(testing::Prefix(all, k)));
  }
  EXPECT_EQ(OracleAnswer(testing::Select(corpus, {}), query, 3).ids.size(), 0);
}

// Large corpora are searched in chunks.
TEST(Oracle, AnswersOfChunksMergeIntoTheAnswerOfAll) {
  Random random(TestSeed());
  for (const CorpusFamily family : testing::kCorpusFamilies) {
    const CollectionSpec spec{.dim = 17,
                              .metric = Metric::kL2,
                              .row_type = RowType::kBFloat16,
                              .id_type = IdType::kString};
    const Corpus corpus = MakeCorpus(spec, family, 50, random.Bits());
    const std::vector<float> query = MakeQuery(corpus, QueryFamily::kRow, random);
    const int64_t k = random.Between(1, 55);
    const int64_t cut = random.Between(0, 51);
    std::vector<int64_t> rows = testing::AllIndices(50);
    const Neighbors first =
        OracleAnswer(testing::Select(corpus, {rows.data(), static_cast<size_t>(cut)}), query, k);
    const Neighbors second = OracleAnswer(
        testing::Select(corpus, {rows.data() + cut, static_cast<size_t>(50 - cut)}), query, k);
    std::vector<score::ScoredId> merged;
    for (const Neighbors* list : {&first, &second}) {
      for (int64_t i = 0; i < list->ids.size(); ++i) {
        merged.push_back(
            {.score = list->scores[static_cast<size_t>(i)], .ids = &list->ids, .index = i});
      }
    }
    std::sort(merged.begin(), merged.end(), score::ComesBefore);
    Neighbors got;
    got.ids = IdColumn(IdType::kString);
    for (const score::ScoredId& entry : merged) {
      got.ids.AppendFrom(*entry.ids, entry.index);
      got.scores.push_back(entry.score);
    }
    EXPECT_THAT(testing::Prefix(got, k), BytesEqual(OracleAnswer(corpus, query, k)))
        << testing::Name(family);
  }
}

}  // namespace
}  // namespace nearfield::oracle
