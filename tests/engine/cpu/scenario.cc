#include "tests/engine/cpu/scenario.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <utility>

#include "engine/backend/query_views.h"
#include "engine/corpus/tombstone_words.h"
#include "engine/cpu/cpu_topk_engine.h"
#include "engine/score/score.h"
#include "tests/testing/row_terms.h"
#include "tests/testing/status_matchers.h"

namespace nearfield::testing {
namespace {

using Ranked = std::vector<std::pair<uint32_t, uint32_t>>;  // score bits, rank
Ranked ToBits(absl::Span<const backend::RankedScore> best) {
  Ranked bits;
  for (const backend::RankedScore& row : best) {
    bits.emplace_back(score::BitsFromFloat(row.score), row.rank);
  }
  return bits;
}

using Lists = std::vector<std::vector<backend::RankedScore>>;

// Returns the k-th best score of all lists; -inf if there are fewer scores.
float FloorOf(const Lists& lists, int32_t k) {
  std::vector<float> scores;
  for (const auto& list : lists) {
    for (const backend::RankedScore& row : list) scores.push_back(row.score);
  }
  std::sort(scores.begin(), scores.end(), std::greater<>());
  const auto place = static_cast<size_t>(k) - 1;
  return place < scores.size() ? scores[place] : score::MinusInfinity();
}

void ExpectLists(const backend::RankedLists& best, size_t query, const Lists& whole, float floor) {
  ASSERT_EQ(best.generations_count(), whole.size());
  for (size_t g = 0; g < whole.size(); ++g) {
    SCOPED_TRACE(::testing::Message() << "generation " << g << " of " << whole.size());
    const absl::Span<const backend::RankedScore> got = best.list(query, g);
    const auto needed = std::count_if(whole[g].begin(), whole[g].end(),
                                      [&](const auto& row) { return row.score >= floor; });
    ASSERT_GE(static_cast<int64_t>(got.size()), needed);
    ASSERT_LE(got.size(), whole[g].size());
    ASSERT_EQ(ToBits(got), ToBits(absl::MakeConstSpan(whole[g]).subspan(0, got.size())));
  }
}

}  // namespace

void Scenario::AddGeneration(CorpusFamily family, int64_t rows_count, RankOrder order,
                             bool with_deletions, Random& random) {
  generations.push_back(MakeGeneration(MakeCorpus(spec, family, rows_count, random.Bits()), order,
                                       with_deletions, random));
}

void Scenario::AddQueries(int64_t count, int32_t wanted, QueryFamily family, Random& random) {
  for (int64_t q = 0; q < count; ++q) {
    const std::vector<float> query = MakeQuery(generations[0].corpus, family, random);
    queries.insert(queries.end(), query.begin(), query.end());
    k.push_back(wanted);
  }
}

void Scenario::AddTerms(Random& random) {
  std::vector<int64_t> rows;
  for (const HostGeneration& generation : generations) {
    rows.push_back(generation.corpus.rows_count());
  }
  const auto dim = static_cast<size_t>(spec.dim);
  terms.clear();
  for (size_t q = 0; q < k.size(); ++q) {
    if (random.OneIn(5)) {
      terms.push_back(nullptr);
    } else if (!terms.empty() && random.OneIn(3)) {
      terms.push_back(terms.back());
    } else {
      const std::vector<float> row = Decode(spec, generations[0].corpus.row(0));
      const float score = ReferenceScore(spec.metric, row, {queries.data() + q * dim, dim});
      const double magnitude = std::isfinite(score) ? std::abs(double{score}) : 0x1p50;
      terms.push_back(
          std::make_shared<TestTerms>(DrawTerms(rows, std::min(magnitude, 0x1p50), random)));
    }
  }
}

void Scenario::AddFilters(Random& random) {
  filters.clear();
  filter_of_query.clear();
  for (size_t q = 0; q < k.size(); ++q) {
    if (random.OneIn(5)) {
      filter_of_query.push_back(-1);
      continue;
    }
    if (!filters.empty() && random.OneIn(3)) {
      filter_of_query.push_back(
          static_cast<int32_t>(random.Between(0, static_cast<int64_t>(filters.size()))));
      continue;
    }
    filter_of_query.push_back(static_cast<int32_t>(filters.size()));
    std::vector<std::vector<uint64_t>>& absent = filters.emplace_back();
    const int64_t one_in = random.OneOf<int64_t>({1, 2, 10, 100, 100, 1'000'000'000});
    for (const HostGeneration& generation : generations) {
      const int64_t rows = generation.corpus.rows_count();
      const int64_t one_row = random.OneIn(2) ? random.Between(0, rows) : -1;
      std::vector<uint64_t>& words = absent.emplace_back(static_cast<size_t>((rows + 63) / 64));
      for (int64_t slot = 0; slot < rows; ++slot) {
        const bool chosen = slot == one_row || random.OneIn(one_in);
        if (chosen && !generation.deleted(slot)) continue;
        words[static_cast<size_t>(slot / 64)] |= uint64_t{1} << (slot % 64);
      }
    }
  }
}

Scenario DrawScenario(const CollectionSpec& spec, CorpusFamily family, const ScenarioSizes& sizes,
                      Random& random) {
  Scenario scenario = {.spec = spec};
  const int64_t generations = random.Between(1, sizes.generations_end);
  for (int64_t g = 0; g < generations; ++g) {
    const int64_t rows_end = random.OneIn(3) ? sizes.rows_of_small_end : sizes.rows_end;
    scenario.AddGeneration(family, random.Between(1, rows_end),
                           random.OneOf<RankOrder>(kRankOrders), random.OneIn(2), random);
  }
  const int64_t queries = random.OneIn(3) ? 1 : random.Between(2, sizes.queries_end);
  for (int64_t q = 0; q < queries; ++q) {
    const int64_t rows = scenario.generations[0].rows_live;
    const int64_t k = random.OneIn(2) ? random.Between(1, 20) : rows + random.Between(-1, 2);
    scenario.AddQueries(1, static_cast<int32_t>(std::max<int64_t>(1, k)),
                        random.OneOf<QueryFamily>(kQueryFamilies), random);
  }
  return scenario;
}

Scenario OrderedScenario(const CollectionSpec& spec, int32_t direction, RankOrder order,
                         Random& random) {
  constexpr int64_t kRows = 30'000;
  Scenario scenario = {.spec = spec};
  scenario.spec.dim = 1;
  Corpus corpus = {
      .spec = scenario.spec, .rows = {}, .ids = MakeIds(IdType::kUint64, kRows, random.Bits())};
  for (int64_t r = 0; r < kRows; ++r) {
    const auto value = static_cast<float>(direction * (r - kRows / 2));
    const auto* bytes = reinterpret_cast<const uint8_t*>(&value);
    corpus.rows.insert(corpus.rows.end(), bytes, bytes + sizeof(value));
  }
  scenario.generations.push_back(MakeGeneration(std::move(corpus), order, random.OneIn(2), random));
  scenario.queries = {1.0f, -1.0f, 0.0f};
  scenario.k = {kKMax + 1, 4096, 1000};
  return scenario;
}

Scenario CancellingScenario(const CollectionSpec& spec, int64_t rows_count, int32_t queries_count,
                            Random& random) {
  const int32_t dim = spec.dim;
  Scenario scenario = {.spec = spec};
  Corpus corpus = MakeCorpus(spec, CorpusFamily::kAllZero, rows_count, random.Bits());
  auto* const values = reinterpret_cast<float*>(corpus.rows.data());
  for (int64_t r = 0; r < rows_count; ++r) {
    float* const row = values + r * dim;
    for (int32_t d = 0; d + 3 < dim; d += 2) {
      const float fraction = 0x1p-7f * static_cast<float>(random.Between(0, 128));
      row[d] = std::ldexp(1.0f + fraction, static_cast<int>(random.Between(0, 8)));
      row[d + 1] = row[d];
    }
    row[dim - 2] = random.Gaussian() * 0.01f;
  }
  scenario.generations.push_back(
      MakeGeneration(std::move(corpus), RankOrder::kShuffled, false, random));
  for (int32_t q = 0; q < queries_count; ++q) {
    std::vector<float> query(static_cast<size_t>(dim));
    for (size_t d = 0; d + 3 < query.size(); d += 2) {
      query[d] = random.Gaussian();
      query[d + 1] = -query[d];
    }
    query[query.size() - 2] = 1.0f;
    scenario.queries.insert(scenario.queries.end(), query.begin(), query.end());
    scenario.k.push_back(10);
  }
  return scenario;
}

Scenario NearTiesScenario(const CollectionSpec& spec, int64_t rows_count, Random& random) {
  Scenario scenario = {.spec = spec};
  Corpus corpus = MakeCorpus(spec, CorpusFamily::kAllEqual, rows_count, random.Bits());
  auto* const values = reinterpret_cast<float*>(corpus.rows.data());
  scenario.queries.assign(values, values + spec.dim);
  scenario.k.push_back(10);
  for (int64_t i = 0; i < rows_count * spec.dim; ++i) values[i] += 1e-5f * random.Gaussian();
  scenario.generations.push_back(
      MakeGeneration(std::move(corpus), RankOrder::kShuffled, false, random));
  return scenario;
}

Scenario ExtremeScenario(const CollectionSpec& spec, int64_t rows_count, int32_t queries_count,
                         int exponent, Random& random) {
  Scenario scenario = {.spec = spec};
  Corpus corpus = MakeCorpus(spec, CorpusFamily::kGaussian, rows_count, random.Bits());
  auto* const values = reinterpret_cast<float*>(corpus.rows.data());
  for (int64_t i = 0; i < rows_count * spec.dim; ++i) {
    if (i / spec.dim % 3 == 0) values[i] = std::ldexp(values[i], exponent);
  }
  values[int64_t{7} * spec.dim] = std::numeric_limits<float>::max();
  scenario.generations.push_back(
      MakeGeneration(std::move(corpus), RankOrder::kShuffled, true, random));
  for (int32_t q = 0; q < queries_count; ++q) {
    scenario.AddQueries(1, 10, random.OneIn(2) ? QueryFamily::kGaussian : QueryFamily::kRow,
                        random);
  }
  return scenario;
}

std::unique_ptr<backend::Backend> MakeBackend(const std::string& instruction_set, int32_t threads,
                                              int64_t memory_bytes) {
  auto backend = cpu::MakeCpuTopkEngine(
      {.memory_bytes = memory_bytes, .threads = threads, .instruction_set = instruction_set});
  EXPECT_OK(backend);
  return backend.ok() ? *std::move(backend) : nullptr;
}

namespace {

// The rows that the queries of each filter of a scenario see, in a backend.
class LoadedFilters {
 public:
  LoadedFilters(backend::Backend& backend, const Scenario& scenario,
                const std::vector<backend::GenerationView>& searched) {
    for (const auto& absent : scenario.filters) {
      std::vector<backend::GenerationView>& views = views_.emplace_back(searched);
      int64_t chosen = 0;
      int64_t live = 0;
      std::vector<std::vector<uint32_t>> slots;
      for (size_t g = 0; g < views.size(); ++g) {
        live += views[g].rows_live;
        const int64_t rows = scenario.generations[g].corpus.rows_count();
        slots.push_back(corpus::ZeroBits(absent[g], rows));
        const auto left = static_cast<int64_t>(slots.back().size());
        chosen += left;
        const bool all = left == views[g].rows_live;
        views[g].rows_live = left;
        if (all || left == 0) continue;
        auto made = backend.MakeTombstones(*views[g].planes, absent[g]);
        EXPECT_OK(made);
        if (!made.ok()) continue;
        tombstones_.push_back(*std::move(made));
        views[g].tombstones = tombstones_.back().get();
      }
      for (size_t g = 0; g < views.size() && chosen * 32 <= live; ++g) {
        views[g].live_slots = slots_.emplace_back(std::move(slots[g]));
      }
    }
    for (const int32_t filter : scenario.filter_of_query) {
      of_queries_.push_back(filter < 0 ? backend::Views(searched)
                                       : backend::Views(views_[static_cast<size_t>(filter)]));
    }
  }

  absl::Span<const backend::Views> of_queries() const { return of_queries_; }

 private:
  std::vector<std::vector<backend::GenerationView>> views_;
  std::vector<std::vector<uint32_t>> slots_;
  std::vector<std::unique_ptr<backend::Tombstones>> tombstones_;
  std::vector<backend::Views> of_queries_;
};

}  // namespace

backend::ScanCost ExpectReferenceAnswers(backend::Backend& backend, const Scenario& scenario) {
  std::vector<LoadedGeneration> loaded;
  std::vector<backend::GenerationView> views;
  std::vector<ReferenceRows> reference;
  for (const HostGeneration& generation : scenario.generations) {
    loaded.push_back(Load(backend, generation, scenario.spec));
    views.push_back(loaded.back().view);
    if (!scenario.live_slots.empty())
      views.back().live_slots = scenario.live_slots[views.size() - 1];
    reference.emplace_back(generation);
  }
  backend::QueryTile tile = TileOf(scenario.queries, scenario.k);
  std::vector<const backend::TermSource*> terms;
  for (const auto& of_query : scenario.terms) terms.push_back(of_query.get());
  tile.terms = terms;
  const LoadedFilters filters(backend, scenario, views);
  tile.views = filters.of_queries();
  backend::ScanCost cost;
  backend::RankedLists best;
  const absl::Status status = backend.Search(FormatOf(scenario.spec), views, tile, &best, &cost);
  EXPECT_OK(status);
  if (!status.ok()) return cost;
  EXPECT_EQ(best.queries_count(), scenario.k.size());
  const auto dim = static_cast<size_t>(scenario.spec.dim);
  for (size_t q = 0; q < scenario.k.size(); ++q) {
    const absl::Span<const float> query(scenario.queries.data() + q * dim, dim);
    Lists whole;
    for (size_t g = 0; g < reference.size(); ++g) {
      const backend::TermSource* const of_query = terms.empty() ? nullptr : terms[q];
      const int32_t filter = scenario.filter_of_query.empty() ? -1 : scenario.filter_of_query[q];
      whole.push_back(reference[g].Top(
          query, scenario.k[q], of_query, g,
          filter < 0 ? absl::Span<const uint64_t>()
                     : absl::MakeConstSpan(scenario.filters[static_cast<size_t>(filter)][g])));
    }
    SCOPED_TRACE(::testing::Message()
                 << Describe(scenario.spec) << ", query " << q << " of " << scenario.k.size()
                 << ", k = " << scenario.k[q] << ", " << backend.info().device_name);
    ExpectLists(best, q, whole, FloorOf(whole, scenario.k[q]));
    if (::testing::Test::HasFatalFailure()) return cost;
  }
  return cost;
}

}  // namespace nearfield::testing
