// Compares searches of a CPU backend with reference answers computed by engine/score alone.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine/backend/backend.h"
#include "tests/engine/cpu/reference.h"

namespace nearfield::testing {

std::unique_ptr<backend::Backend> MakeBackend(const std::string& instruction_set, int32_t threads,
                                              int64_t memory_bytes = int64_t{1} << 30);

// Returns the numbers of threads to search with: one, and several. Under a sanitizer, where they
// take several times as long, fewer.
inline std::vector<int32_t> ThreadCounts() {
#ifdef NEARFIELD_SANITIZED
  return {1, 5};
#else
  return {1, 2, 5};
#endif
}

// Generations, queries, and the k of each query.
struct Scenario {
  CollectionSpec spec;
  std::vector<HostGeneration> generations;
  std::vector<float> queries;
  std::vector<int32_t> k;
  // The live slots of each generation (GenerationView::live_slots), or empty.
  std::vector<std::vector<uint32_t>> live_slots;
  // The row terms of each query, null if it has none; or empty.
  std::vector<std::shared_ptr<const backend::TermSource>> terms;
  // The bits of the rows that each filter excludes, among them all deleted rows, by generation.
  std::vector<std::vector<std::vector<uint64_t>>> filters;
  std::vector<int32_t> filter_of_query;  // -1: none; or empty

  void AddGeneration(CorpusFamily family, int64_t rows_count, RankOrder order, bool with_deletions,
                     Random& random);
  // Adds queries made for the rows of the first generation, all with this k.
  void AddQueries(int64_t count, int32_t wanted, QueryFamily family, Random& random);
  // Gives queries random row terms: some share them, some have none.
  void AddTerms(Random& random);
  // Gives queries random filters, which choose no row, one row, some, or all of a generation: some
  // queries share them, some have none.
  void AddFilters(Random& random);
};

inline constexpr RankOrder kRankOrders[] = {RankOrder::kShuffled, RankOrder::kAscending,
                                            RankOrder::kDescending};

// The ends of the ranges that the sizes of a scenario are drawn from.
struct ScenarioSizes {
  int64_t generations_end = 0;
  int64_t rows_of_small_end = 0;  // of one generation in three
  int64_t rows_end = 0;
  int64_t queries_end = 0;
};
// Returns generations and queries of drawn sizes, with k around the row counts.
Scenario DrawScenario(const CollectionSpec& spec, CorpusFamily family, const ScenarioSizes& sizes,
                      Random& random);
// Returns 30,000 rows of one dimension and a query of 1: the score is the row's value, which
// ascends for direction 1, descends for -1 and is equal for 0. Two more queries are -1 and 0.
Scenario OrderedScenario(const CollectionSpec& spec, int32_t direction, RankOrder order,
                         Random& random);

// Returns fp32 rows of large values in pairs, and queries whose elements cancel on each pair: sums
// of codes lose the small part that distinguishes rows. Requires: spec.dim > 4.
Scenario CancellingScenario(const CollectionSpec& spec, int64_t rows_count, int32_t queries_count,
                            Random& random);
// Returns Gaussian fp32 rows, every third scaled by 2^exponent, one with the largest fp32 element;
// queries of both kinds. Requires: rows_count > 7.
Scenario ExtremeScenario(const CollectionSpec& spec, int64_t rows_count, int32_t queries_count,
                         int exponent, Random& random);
// Returns fp32 rows that differ from the query by less than from their two codes of 8 bits.
Scenario NearTiesScenario(const CollectionSpec& spec, int64_t rows_count, Random& random);

// Expects that every list is a prefix of its generation's order, bit for bit, with at least the
// rows that are among the query's k best of all generations. Returns the cost of the search.
backend::ScanCost ExpectReferenceAnswers(backend::Backend& backend, const Scenario& scenario);

}  // namespace nearfield::testing

namespace nearfield {

using testing::DrawScenario;
using testing::ExpectReferenceAnswers;
using testing::kRankOrders;
using testing::MakeBackend;
using testing::OrderedScenario;
using testing::Scenario;
using testing::ScenarioSizes;

}  // namespace nearfield
