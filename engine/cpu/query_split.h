// Divides the queries of a search that see different rows into searches of some of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "engine/backend/backend.h"
#include "engine/backend/query_views.h"
#include "engine/cpu/generation_scan.h"

namespace nearfield::cpu {

// Some queries of a search: what they see, the queries as a tile, and their places in the results.
// The tile has views if they see different rows.
struct QueryPart {
  backend::Views generations;
  const backend::QueryTile* tile = nullptr;
  absl::Span<const size_t> places;
};

// Queries of a tile that are searched together.
struct QuerySet {
  backend::Views generations;  // what the search of these queries sees
  std::vector<size_t> places;  // of the queries in the tile, ascending
  bool differ = false;         // they see different rows
};

// Makes parts of a search. Keeps its memory from one search to the next.
class QueryPicker {
 public:
  // Return all queries of a tile without views, and some queries of a tile with views, until the
  // next call.
  QueryPart All(backend::Views generations, const backend::QueryTile& tile);
  QueryPart Pick(const backend::QueryTile& tile, int32_t dim, const QuerySet& set);

 private:
  backend::QueryTile tile_;
  std::vector<float> vectors_;
  std::vector<int32_t> k_;
  std::vector<const backend::TermSource*> terms_;
  std::vector<backend::Views> views_;
  std::vector<size_t> places_;
};

// Returns the searches in which the queries of a tile with views take the shortest time: one for
// the queries of each filter that leaves few rows, and one for all others.
std::vector<QuerySet> SplitQueries(const backend::RowFormat& format, backend::Views generations,
                                   const backend::QueryTile& tile,
                                   const GenerationScan::Context& context);

}  // namespace nearfield::cpu
