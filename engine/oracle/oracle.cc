#include "engine/oracle/oracle.h"

#include <algorithm>
#include <cstddef>

#include "engine/score/element.h"
#include "engine/score/neighbor_order.h"
#include "engine/score/row_terms.h"
#include "engine/score/score.h"

namespace nearfield::oracle {
namespace {

using Step = double (*)(double, double, double);

// Sums over vectors a and b with the 32 accumulators and their tree; a_at(d) and b_at(d) return
// element d.
template <Step kStep, typename A, typename B>
double Sum(size_t dim, A a_at, B b_at) {
  double sums[score::kAccumulators] = {};
  for (size_t d = 0; d < dim; ++d) {
    double& sum = sums[d % score::kAccumulators];
    sum = kStep(a_at(d), b_at(d), sum);
  }
  return score::ReduceAccumulators(sums);
}

double QuerySquared(absl::Span<const float> query) {
  const auto at = [query](size_t d) { return static_cast<double>(query[d]); };
  return Sum<score::DotStep>(query.size(), at, at);
}

// query_squared: S(q,q), read for cosine only.
float ScoreRow(Metric metric, RowType row_type, absl::Span<const float> query, double query_squared,
               const void* row) {
  const auto query_at = [query](size_t d) { return static_cast<double>(query[d]); };
  const auto row_at = [row_type, row](size_t d) {
    return static_cast<double>(score::ElementAt(row_type, row, d));
  };
  if (metric == Metric::kL2) {
    return score::L2Score(Sum<score::L2Step>(query.size(), query_at, row_at));
  }
  const double s = Sum<score::DotStep>(query.size(), query_at, row_at);
  if (metric == Metric::kDot) return score::DotScore(s);
  return score::CosineScore(s, query_squared, Sum<score::DotStep>(query.size(), row_at, row_at));
}

float FinalScore(const Terms& terms, int64_t row, float s) {
  score::TermSum sum;
  for (const Term& term : terms.terms) {
    sum.Add(score::TermOf(term.parameters, term.numbers[static_cast<size_t>(row)]));
  }
  return score::FinalScore(terms.score_weight, s, sum.value());
}

}  // namespace

float Score(Metric metric, RowType row_type, absl::Span<const float> query, const void* row) {
  return ScoreRow(metric, row_type, query, QuerySquared(query), row);
}

Answer TopK(const Rows& rows, absl::Span<const float> query, int64_t k, const Terms* terms) {
  const size_t row_bytes =
      static_cast<size_t>(rows.dim) * static_cast<size_t>(BytesPerElement(rows.row_type));
  const double query_squared = QuerySquared(query);
  std::vector<score::ScoredId> all;
  all.reserve(static_cast<size_t>(rows.ids->size()));
  for (int64_t row = 0; row < rows.ids->size(); ++row) {
    const char* const data =
        static_cast<const char*>(rows.data) + static_cast<size_t>(row) * row_bytes;
    const float s = ScoreRow(rows.metric, rows.row_type, query, query_squared, data);
    all.push_back({.score = terms == nullptr ? s : FinalScore(*terms, row, s),
                   .ids = rows.ids,
                   .index = row});
  }
  std::sort(all.begin(), all.end(), score::ComesBefore);

  Answer answer;
  const size_t kept = std::min(all.size(), static_cast<size_t>(std::max<int64_t>(k, 0)));
  answer.rows.reserve(kept);
  answer.scores.reserve(kept);
  for (size_t place = 0; place < kept; ++place) {
    answer.rows.push_back(all[place].index);
    answer.scores.push_back(all[place].score);
  }
  return answer;
}

}  // namespace nearfield::oracle
