// Laws of searches with row terms.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "engine/oracle/oracle.h"
#include "engine/score/row_terms.h"
#include "engine/score/score.h"
#include "tests/property/laws.h"
#include "tests/testing/row_terms.h"

namespace nearfield::property {
namespace {

using testing::Corpus;
using testing::DrawnTerms;

class TermLaws : public Laws {};

// Returns terms over the rows of the corpus (as one generation) that matter for the query, or not.
DrawnTerms DrawTermsFor(const Case& c, size_t query, Random& random) {
  const Corpus& corpus = c.corpus;
  double magnitude = 1;
  if (corpus.rows_count() > 0) {
    const float score = oracle::Score(corpus.spec.metric, corpus.spec.row_type, c.queries[query],
                                      corpus.row(0).data());
    if (std::isfinite(score)) magnitude = std::min(std::abs(double{score}), 0x1p50);
  }
  return testing::DrawTerms({corpus.rows_count()}, magnitude, random);
}

// Returns the ordinal of each row of the corpus; -1 for rows that are not in the collection.
std::vector<int64_t> OrdinalsOf(const Collection& collection, const Corpus& corpus) {
  std::vector<int64_t> ordinals(static_cast<size_t>(corpus.rows_count()), -1);
  const auto found = collection.Fetch(corpus.ids, {.ordinals = true});
  EXPECT_OK(found);
  if (!found.ok()) return ordinals;
  int64_t place = 0;  // of the next row found: they are in the order of the request
  for (int64_t row = 0; row < corpus.rows_count() && place < found->ids.size(); ++row) {
    if (corpus.ids.Compare(row, found->ids, place) != 0) continue;
    ordinals[static_cast<size_t>(row)] = found->ordinals[static_cast<size_t>(place++)];
  }
  return ordinals;
}

// Returns the terms for the engine. Ordinals of other rows get numbers that must not matter.
std::shared_ptr<const RowTerms> ByOrdinal(const DrawnTerms& drawn,
                                          const std::vector<int64_t>& ordinals) {
  const int64_t last = ordinals.empty() ? -1 : *std::max_element(ordinals.begin(), ordinals.end());
  auto terms = std::make_shared<RowTerms>();
  terms->score_weight = drawn.score_weight;
  for (const DrawnTerms::Term& term : drawn.terms) {
    RowTerm& row_term = terms->terms.emplace_back();
    row_term.parameters = term.parameters;
    std::vector<double> numbers(static_cast<size_t>(last + 1), 123.0);
    auto filter = std::make_shared<RowFilter>();
    filter->chosen.resize(static_cast<size_t>(last + 64) / 64);
    for (size_t row = 0; row < ordinals.size(); ++row) {
      if (ordinals[row] < 0) continue;
      const auto ordinal = static_cast<size_t>(ordinals[row]);
      numbers[ordinal] = term.numbers[0][row];
      if (numbers[ordinal] == 1.0) filter->chosen[ordinal / 64] |= uint64_t{1} << (ordinal % 64);
    }
    if (term.parameters.form == TermForm::kIs) {
      row_term.filter = std::move(filter);
    } else {
      row_term.numbers = std::make_shared<RowNumbers>(std::move(numbers));
    }
  }
  return terms;
}

// Returns the oracle's answer over the rows at `indices`.
Neighbors OracleAnswerOf(const Corpus& corpus, const std::vector<int64_t>& indices,
                         absl::Span<const float> query, int64_t k, const DrawnTerms* drawn) {
  oracle::Terms terms;
  std::vector<std::vector<double>> numbers;
  if (drawn != nullptr) {
    numbers.reserve(drawn->terms.size());
    terms.score_weight = drawn->score_weight;
    for (const DrawnTerms::Term& term : drawn->terms) {
      std::vector<double>& of_rows = numbers.emplace_back();
      for (const int64_t row : indices)
        of_rows.push_back(term.numbers[0][static_cast<size_t>(row)]);
      terms.terms.push_back({.parameters = term.parameters, .numbers = of_rows});
    }
  }
  return testing::OracleAnswer(testing::Select(corpus, indices), query, k,
                               drawn == nullptr ? nullptr : &terms);
}

// Expects the score and the sum of the terms of each neighbor, of which its final score consists.
void ExpectParts(const Corpus& corpus, absl::Span<const float> query, const DrawnTerms* drawn,
                 const Neighbors& answer) {
  ASSERT_EQ(answer.parts.size(), answer.scores.size());
  for (size_t i = 0; i < answer.parts.size(); ++i) {
    int64_t row = 0;
    while (corpus.ids.Compare(row, answer.ids, static_cast<int64_t>(i)) != 0) ++row;
    const ScoreParts& parts = answer.parts[i];
    ASSERT_EQ(score::BitsFromFloat(parts.score),
              score::BitsFromFloat(oracle::Score(corpus.spec.metric, corpus.spec.row_type, query,
                                                 corpus.row(row).data())));
    score::TermSum sum;
    if (drawn != nullptr) {
      for (const DrawnTerms::Term& term : drawn->terms) {
        sum.Add(score::TermOf(term.parameters, term.numbers[0][static_cast<size_t>(row)]));
      }
    }
    ASSERT_EQ(parts.terms, sum.value());
    const double weight = drawn == nullptr ? 1.0 : drawn->score_weight;
    ASSERT_EQ(score::BitsFromFloat(score::FinalScore(weight, parts.score, parts.terms)),
              score::BitsFromFloat(answer.scores[i]));
  }
}

// Terms for each query of a case: some share them, some have none.
struct BatchTerms {
  std::vector<std::shared_ptr<const DrawnTerms>> drawn;

  void Draw(const Case& c, Random& random) {
    for (size_t q = 0; q < c.queries.size(); ++q) {
      if (random.OneIn(5)) {
        drawn.push_back(nullptr);
      } else if (q > 0 && random.OneIn(3)) {
        drawn.push_back(drawn.back());
      } else {
        drawn.push_back(std::make_shared<DrawnTerms>(DrawTermsFor(c, q, random)));
      }
    }
  }
  // Gives the queries their terms for the rows that the collection has now.
  void Apply(const Collection& collection, const Corpus& corpus, SearchBatch* batch) const {
    const std::vector<int64_t> ordinals = OrdinalsOf(collection, corpus);
    for (size_t q = 0; q < drawn.size(); ++q) {
      if (drawn[q] == nullptr) {
        batch->queries[q].terms = nullptr;
      } else if (q > 0 && drawn[q] == drawn[q - 1]) {
        batch->queries[q].terms = batch->queries[q - 1].terms;
      } else {
        batch->queries[q].terms = ByOrdinal(*drawn[q], ordinals);
      }
    }
  }
};

TEST_P(TermLaws, AnswersEqualTheOracleAloneAndInABatch) {
  ForEachCase([&](const Case& c, Random& random) {
    ASSERT_OK_AND_ASSIGN(
        const auto collection,
        MakeCollection(engine(), c.corpus,
                       RandomParts(c.corpus.rows_count(), random.Between(1, 5), random)));
    SearchBatch batch = c.Batch();
    BatchTerms terms;
    terms.Draw(c, random);
    terms.Apply(*collection, c.corpus, &batch);
    const std::vector<int64_t> all = testing::AllIndices(c.corpus.rows_count());
    std::vector<Neighbors> want;
    for (size_t q = 0; q < c.queries.size(); ++q) {
      want.push_back(OracleAnswerOf(c.corpus, all, c.queries[q], c.k[q], terms.drawn[q].get()));
    }
    ExpectAnswers(SearchOrFail(engine(), *collection, batch), want);
    const auto one = static_cast<size_t>(random.Between(0, static_cast<int64_t>(want.size())));
    SearchBatch alone;
    alone.queries = {batch.queries[one]};
    alone.queries[0].tell_parts = true;
    const std::vector<Neighbors> explained = SearchOrFail(engine(), *collection, alone);
    ExpectAnswers(explained, {want[one]});
    ExpectParts(c.corpus, c.queries[one], terms.drawn[one].get(), explained.at(0));
    ASSERT_OK_AND_ASSIGN(const auto verdict, engine().Verify(*collection,
                                                             {.query = batch.queries[one],
                                                              .neighbors = want[one],
                                                              .epoch = collection->Stats().epoch},
                                                             nullptr));
    EXPECT_TRUE(verdict.equal) << verdict.explanation;
  });
}

// Rows get other slots and ordinals, and their numbers stay or change with them.
TEST_P(TermLaws, DeletedUpdatedAndCompactedRowsAndFiltersChangeNoOtherRow) {
  ForEachCase([&](const Case& c, Random& random) {
    const int64_t rows_count = c.corpus.rows_count();
    if (rows_count < 2) return;
    ASSERT_OK_AND_ASSIGN(
        const auto collection,
        MakeCollection(engine(), c.corpus, RandomParts(rows_count, random.Between(1, 5), random)));
    std::vector<int64_t> doomed, live, updated;
    for (int64_t row = 0; row < rows_count; ++row) {
      (random.OneIn(4) ? doomed : live).push_back(row);
      if (live.size() > updated.size() && live.back() == row && random.OneIn(7)) {
        updated.push_back(row);
      }
    }
    ASSERT_OK(collection->Delete(testing::Select(c.corpus, doomed).ids));
    if (!updated.empty()) {
      ASSERT_OK(collection->Update(
          [&](const auto&) -> absl::StatusOr<RowChanges> {
            return RowChanges{.ids = testing::Select(c.corpus, updated).ids, .epochs = 1};
          },
          nullptr));
    }
    BatchTerms terms;
    terms.Draw(c, random);
    SearchBatch batch = c.Batch();
    terms.Apply(*collection, c.corpus, &batch);
    const std::vector<int64_t> ordinals = OrdinalsOf(*collection, c.corpus);
    std::vector<Neighbors> want;
    std::vector<int64_t> chosen;  // by the filter of the query
    for (size_t q = 0; q < c.queries.size(); ++q) {
      if (q == 0 || random.OneIn(2)) {
        chosen.clear();
        const auto filter = std::make_shared<RowFilter>();
        const int64_t one_in = random.OneOf<int64_t>({1, 2, 40});
        for (const int64_t row : live) {
          if (!random.OneIn(one_in)) continue;
          chosen.push_back(row);
          const auto ordinal = static_cast<size_t>(ordinals[static_cast<size_t>(row)]);
          filter->chosen.resize(std::max(filter->chosen.size(), ordinal / 64 + 1));
          filter->chosen[ordinal / 64] |= uint64_t{1} << (ordinal % 64);
        }
        batch.queries[q].filter = filter;
      } else {
        batch.queries[q].filter = batch.queries[q - 1].filter;
      }
      want.push_back(OracleAnswerOf(c.corpus, chosen, c.queries[q], c.k[q], terms.drawn[q].get()));
    }
    ExpectAnswers(SearchOrFail(engine(), *collection, batch), want);
    for (int i = 0; i < 2; ++i) {
      ASSERT_OK(collection->Compact({.dead_share_max = 0.0, .generations_max = 1}));
      ExpectAnswers(SearchOrFail(engine(), *collection, batch), want);
    }
  });
}

TEST_P(TermLaws, PagesAndThresholdsCutTheOrderOfFinalScores) {
  ForEachCase([&](const Case& c, Random& random) {
    ASSERT_OK_AND_ASSIGN(const auto collection, MakeCollection(engine(), c.corpus));
    SearchBatch batch;
    batch.queries = {c.Batch().queries[0]};
    Query& query = batch.queries[0];
    const DrawnTerms drawn = DrawTermsFor(c, 0, random);
    query.terms = ByOrdinal(drawn, OrdinalsOf(*collection, c.corpus));
    const int64_t rows_count = c.corpus.rows_count();
    const Neighbors whole =
        OracleAnswerOf(c.corpus, testing::AllIndices(rows_count), c.queries[0], rows_count, &drawn);
    for (int i = 0; i < 4; ++i) {
      query.k = static_cast<int32_t>(random.Between(1, 50));
      query.skip = random.Between(0, std::min<int64_t>(rows_count + 3, 5'000));
      if (random.OneIn(2)) query.page_cache = MakeResultPageCache(rows_count + 1);
      Neighbors want;
      want.ids = IdColumn(c.corpus.spec.id_type);
      const auto end = std::min<int64_t>(query.skip + query.k, whole.ids.size());
      for (int64_t place = query.skip; place < end; ++place) {
        want.ids.AppendFrom(whole.ids, place);
        want.scores.push_back(whole.scores[static_cast<size_t>(place)]);
      }
      ASSERT_THAT(SearchOrFail(engine(), *collection, batch).at(0), BytesEqual(want));
      if (want.scores.empty()) continue;
      query.score_threshold = want.scores[static_cast<size_t>(random.Between(0, want.ids.size()))];
      int64_t kept = 0;
      while (kept < want.ids.size() &&
             !(want.scores[static_cast<size_t>(kept)] < *query.score_threshold)) {
        ++kept;
      }
      ASSERT_THAT(SearchOrFail(engine(), *collection, batch).at(0),
                  BytesEqual(testing::Prefix(want, kept)));
      query.score_threshold.reset();
    }
  });
}

TEST_P(TermLaws, AQueryByIdExcludesItsRow) {
  ForEachCase([&](const Case& c, Random& random) {
    if (c.corpus.rows_count() < 2) return;
    ASSERT_OK_AND_ASSIGN(const auto collection, MakeCollection(engine(), c.corpus));
    const int64_t self = random.Between(0, c.corpus.rows_count());
    const std::vector<float> vector = testing::Decode(c.corpus.spec, c.corpus.row(self));
    const bool zero = std::all_of(vector.begin(), vector.end(), [](float x) { return x == 0.0f; });
    if (zero && c.corpus.spec.metric == Metric::kCosine) return;
    const DrawnTerms drawn = DrawTermsFor(c, 0, random);
    SearchBatch batch;
    batch.queries = {{.row_id = c.corpus.ids.at(self), .k = c.k[0]}};
    batch.queries[0].terms = ByOrdinal(drawn, OrdinalsOf(*collection, c.corpus));
    std::vector<int64_t> others = testing::AllIndices(c.corpus.rows_count());
    others.erase(others.begin() + self);
    ExpectAnswers(SearchOrFail(engine(), *collection, batch),
                  {OracleAnswerOf(c.corpus, others, vector, c.k[0], &drawn)});
  });
}

NEARFIELD_ON_EVERY_BACKEND(TermLaws);

}  // namespace
}  // namespace nearfield::property
