#include "tests/engine/cpu/reference.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "engine/score/order.h"
#include "engine/score/row_terms.h"
#include "engine/score/score.h"
#include "tests/testing/status_matchers.h"

namespace nearfield::testing {

double ReferenceSum(cpu::SumKind kind, const std::vector<float>& row,
                    absl::Span<const float> query) {
  double sums[score::kAccumulators] = {};
  for (size_t d = 0; d < row.size(); ++d) {
    double& sum = sums[d % score::kAccumulators];
    const auto q = static_cast<double>(query[d]);
    const auto x = static_cast<double>(row[d]);
    sum = kind == cpu::SumKind::kProduct ? score::DotStep(q, x, sum) : score::L2Step(q, x, sum);
  }
  return score::ReduceAccumulators(sums);
}

namespace {

double SquaredFor(Metric metric, const std::vector<float>& row) {
  return metric == Metric::kCosine ? ReferenceSum(cpu::SumKind::kProduct, row, row) : 0.0;
}

// Returns the score of a row. The squared norms are used for cosine only.
float ScoreOf(Metric metric, const std::vector<float>& row, double row_squared,
              absl::Span<const float> query, double query_squared) {
  switch (metric) {
    case Metric::kDot: return score::DotScore(ReferenceSum(cpu::SumKind::kProduct, row, query));
    case Metric::kL2:
      return score::L2Score(ReferenceSum(cpu::SumKind::kSquaredDistance, row, query));
    case Metric::kCosine:
      return score::CosineScore(ReferenceSum(cpu::SumKind::kProduct, row, query), query_squared,
                                row_squared);
  }
  return 0;
}

}  // namespace

float ReferenceScore(Metric metric, const std::vector<float>& row, absl::Span<const float> query) {
  return ScoreOf(metric, row, SquaredFor(metric, row), query,
                 SquaredFor(metric, {query.begin(), query.end()}));
}

HostGeneration MakeGeneration(Corpus corpus, RankOrder order, bool with_deletions, Random& random) {
  HostGeneration generation;
  const int64_t rows = corpus.rows_count();
  generation.ranks.resize(static_cast<size_t>(rows));
  std::iota(generation.ranks.begin(), generation.ranks.end(), 0u);
  if (order == RankOrder::kShuffled) random.Shuffle(generation.ranks);
  if (order == RankOrder::kDescending) {
    std::reverse(generation.ranks.begin(), generation.ranks.end());
  }
  generation.rows_live = rows;
  if (with_deletions) {
    generation.deleted_words.resize(static_cast<size_t>((rows + 63) / 64));
    for (int64_t slot = 0; slot < rows; ++slot) {
      if (!random.OneIn(3)) continue;
      generation.deleted_words[static_cast<size_t>(slot / 64)] |= uint64_t{1} << (slot % 64);
      --generation.rows_live;
    }
  }
  generation.corpus = std::move(corpus);
  return generation;
}

ReferenceRows::ReferenceRows(const HostGeneration& generation)
    : metric_(generation.corpus.spec.metric) {
  const Corpus& corpus = generation.corpus;
  for (int64_t slot = 0; slot < corpus.rows_count(); ++slot) {
    if (generation.deleted(slot)) continue;
    Row row;
    row.elements = Decode(corpus.spec, corpus.row(slot));
    row.squared = SquaredFor(metric_, row.elements);
    row.rank = generation.ranks[static_cast<size_t>(slot)];
    row.slot = static_cast<uint32_t>(slot);
    rows_.push_back(std::move(row));
  }
}

std::vector<backend::RankedScore> ReferenceRows::Top(absl::Span<const float> query, int64_t k,
                                                     const backend::TermSource* terms,
                                                     size_t number,
                                                     absl::Span<const uint64_t> absent) const {
  const double query_squared = SquaredFor(metric_, {query.begin(), query.end()});
  std::vector<backend::RankedScore> all;
  all.reserve(rows_.size());
  for (const Row& row : rows_) {
    if (!absent.empty() && (absent[row.slot / 64] >> (row.slot % 64) & 1) != 0) continue;
    float score = ScoreOf(metric_, row.elements, row.squared, query, query_squared);
    if (terms != nullptr) {
      score = score::FinalScore(terms->score_weight(), score, terms->SumOf(number, row.slot));
    }
    all.push_back({score, row.rank});
  }
  const auto best = std::min(static_cast<int64_t>(all.size()), k);
  std::partial_sort(all.begin(), all.begin() + best, all.end(),
                    [](const backend::RankedScore& a, const backend::RankedScore& b) {
                      return a.score != b.score ? a.score > b.score : a.rank < b.rank;
                    });
  all.resize(static_cast<size_t>(best));
  return all;
}

LoadedGeneration Load(backend::Backend& backend, const HostGeneration& generation,
                      const CollectionSpec& spec) {
  LoadedGeneration loaded;
  const Corpus& corpus = generation.corpus;
  auto planes = backend.Reserve(FormatOf(spec), corpus.rows_count());
  EXPECT_OK(planes);
  if (!planes.ok()) return loaded;
  EXPECT_OK((*planes)->Append(corpus.rows.data(), corpus.rows_count()));
  EXPECT_OK((*planes)->Seal({.ranks = generation.ranks}));
  loaded.planes = *std::move(planes);
  if (!generation.deleted_words.empty()) {
    auto tombstones = backend.MakeTombstones(*loaded.planes, generation.deleted_words);
    EXPECT_OK(tombstones);
    if (tombstones.ok()) loaded.tombstones = *std::move(tombstones);
  }
  loaded.view = {loaded.planes.get(), loaded.tombstones.get(), generation.rows_live};
  return loaded;
}

backend::RowFormat FormatOf(const CollectionSpec& spec) {
  const bool codes = spec.scan == ScanChoice::kInt8 || spec.scan == ScanChoice::kInt16;
  return {.dim = spec.dim,
          .metric = spec.metric,
          .row_type = spec.row_type,
          .scan = codes ? ScanPrecision::kInt8 : ScanPrecision::kRows,
          .second_codes = spec.scan == ScanChoice::kInt16,
          .rows = spec.rows};
}

}  // namespace nearfield::testing
