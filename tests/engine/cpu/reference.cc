#include "tests/engine/cpu/reference.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "engine/score/order.h"
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

float ReferenceScore(Metric metric, const std::vector<float>& row, absl::Span<const float> query) {
  switch (metric) {
    case Metric::kDot:
      return score::DotScore(ReferenceSum(cpu::SumKind::kProduct, row, query));
    case Metric::kL2:
      return score::L2Score(ReferenceSum(cpu::SumKind::kSquaredDistance, row, query));
    case Metric::kCosine: {
      const std::vector<float> own(query.begin(), query.end());
      return score::CosineScore(ReferenceSum(cpu::SumKind::kProduct, row, query),
                                ReferenceSum(cpu::SumKind::kProduct, own, query),
                                ReferenceSum(cpu::SumKind::kProduct, row, row));
    }
  }
  return 0;
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

std::vector<corpus::RankedScore> ReferenceTop(const HostGeneration& generation,
                                              absl::Span<const float> query, int64_t k) {
  const Corpus& rows = generation.corpus;
  std::vector<corpus::RankedScore> all;
  for (int64_t slot = 0; slot < rows.rows_count(); ++slot) {
    if (generation.deleted(slot)) continue;
    all.push_back({ReferenceScore(rows.spec.metric, Decode(rows.spec, rows.row(slot)), query),
                   generation.ranks[static_cast<size_t>(slot)]});
  }
  std::sort(all.begin(), all.end(), [](const corpus::RankedScore& a, const corpus::RankedScore& b) {
    return a.score != b.score ? a.score > b.score : a.rank < b.rank;
  });
  all.resize(std::min(all.size(), static_cast<size_t>(k)));
  return all;
}

LoadedGeneration Load(corpus::Backend& backend, const HostGeneration& generation) {
  LoadedGeneration loaded;
  const Corpus& corpus = generation.corpus;
  auto planes = backend.Reserve(FormatOf(corpus.spec), corpus.rows_count());
  EXPECT_OK(planes);
  if (!planes.ok()) return loaded;
  EXPECT_OK((*planes)->Append(corpus.rows.data(), corpus.rows_count()));
  EXPECT_OK((*planes)->Seal(generation.ranks));
  loaded.planes = *std::move(planes);
  if (!generation.deleted_words.empty()) {
    auto tombstones = backend.MakeTombstones(generation.deleted_words);
    EXPECT_OK(tombstones);
    if (tombstones.ok()) loaded.tombstones = *std::move(tombstones);
  }
  loaded.view = {loaded.planes.get(), loaded.tombstones.get(), generation.rows_live};
  return loaded;
}

corpus::RowFormat FormatOf(const CollectionSpec& spec) {
  return {spec.dim, spec.metric, spec.row_type};
}

}  // namespace nearfield::testing
