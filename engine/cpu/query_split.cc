#include "engine/cpu/query_split.h"

#include <algorithm>
#include <numeric>

#include "engine/cpu/code_queries.h"
#include "engine/cpu/group_search.h"
#include "engine/cpu/listed_search.h"

namespace nearfield::cpu {
namespace {

// Costs relative to a scan of the codes of the same rows for one query: of scoring a listed row, of
// a query in a scan of rows for many, and of leaving out rows that no query of a scan sees.
// Measured at 200k x 384.
constexpr double kListedRow = 9.0;
constexpr double kRowsOfQuery = 1.0 / 2;
constexpr double kRowLeftOut = 1.0 / 16;

// The costs of the queries of one group, in rows of codes that are scanned for one query.
struct Costs {
  double own = 0;   // of a search of their own
  double work = 0;  // in a scan that they share with others, in addition to that scan
};

Costs CostsOf(const backend::RowFormat& format, const backend::ViewGroup& group,
              absl::Span<const int32_t> k, const GenerationScan::Context& context) {
  const auto queries = static_cast<int64_t>(k.size());
  const int64_t live = backend::RowsLive(group.views);
  int64_t rows = 0;
  for (const backend::GenerationView& view : group.views) rows += view.planes->rows_count();
  const int32_t k_max = *std::max_element(k.begin(), k.end());
  const bool codes = GroupSearch::StartsWithCodes(format, live, k_max, queries);
  const double of_query = codes ? context.kernels->codes.panel_query_time : kRowsOfQuery;
  const auto all_rows = static_cast<double>(rows);
  const auto queries_count = static_cast<double>(queries);
  Costs costs = {.own = all_rows * (1.0 + of_query * queries_count),
                 .work = all_rows * of_query * queries_count};
  if (PrefersListed(format, group.views, k, context.pool->threads_count())) {
    costs.own = queries_count * static_cast<double>(live) * kListedRow;
  } else if (codes && CodeQueries::InPanels(static_cast<int32_t>(queries))) {
    costs.own =
        all_rows * kRowLeftOut + static_cast<double>(live) * (1.0 + of_query * queries_count);
  }
  return costs;
}

}  // namespace

QueryPart QueryPicker::All(backend::Views generations, const backend::QueryTile& tile) {
  places_.resize(tile.k.size());
  std::iota(places_.begin(), places_.end(), size_t{0});
  return {.generations = generations, .tile = &tile, .places = places_};
}

QueryPart QueryPicker::Pick(const backend::QueryTile& tile, int32_t dim, const QuerySet& set) {
  tile_ = tile;
  if (!set.differ) tile_.views = {};
  if (set.places.size() < tile.k.size()) {
    vectors_.clear();
    k_.clear();
    terms_.clear();
    views_.clear();
    for (const size_t place : set.places) {
      const float* const query = tile.queries + place * static_cast<size_t>(dim);
      vectors_.insert(vectors_.end(), query, query + dim);
      k_.push_back(tile.k[place]);
      if (!tile.terms.empty()) terms_.push_back(tile.terms[place]);
      if (set.differ) views_.push_back(tile.views[place]);
    }
    tile_.queries = vectors_.data();
    tile_.k = k_;
    tile_.terms = terms_;
    tile_.views = views_;
  }
  return {.generations = set.generations, .tile = &tile_, .places = set.places};
}

std::vector<QuerySet> SplitQueries(const backend::RowFormat& format, backend::Views generations,
                                   const backend::QueryTile& tile,
                                   const GenerationScan::Context& context) {
  std::vector<backend::ViewGroup> groups = backend::GroupByViews(generations, tile);
  std::vector<int32_t> k;
  double rows = 0;
  for (const backend::GenerationView& view : generations) {
    rows += static_cast<double>(view.planes->rows_count());
  }
  for (backend::ViewGroup& group : groups) {
    k.clear();
    for (const int64_t query : group.queries) k.push_back(tile.k[static_cast<size_t>(query)]);
    const Costs costs = CostsOf(format, group, k, context);
    group.own_us = costs.own;
    group.work = costs.work;
  }
  const size_t alone = backend::DivideGroups(groups, [rows](double work) { return rows + work; });
  std::vector<QuerySet> sets;
  for (size_t i = 0; i < groups.size(); ++i) {
    if (i <= alone) sets.push_back({.generations = groups[i].views, .places = {}});
    QuerySet& set = sets.back();
    if (i > alone) {
      set.generations = generations;
      set.differ = true;
    }
    set.places.insert(set.places.end(), groups[i].queries.begin(), groups[i].queries.end());
  }
  std::sort(sets.back().places.begin(), sets.back().places.end());
  return sets;
}

}  // namespace nearfield::cpu
