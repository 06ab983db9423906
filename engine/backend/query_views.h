// Queries of one search that see different rows (QueryTile::views), and how they share its passes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/types/span.h"
#include "engine/backend/backend.h"

namespace nearfield::backend {

using Views = absl::Span<const GenerationView>;

// Returns the generations of a search as a query sees them.
inline Views ViewsOf(Views generations, const QueryTile& tile, size_t query) {
  return tile.views.empty() ? generations : tile.views[query];
}

inline int64_t RowsLive(Views views) {
  int64_t rows = 0;
  for (const GenerationView& view : views) rows += view.rows_live;
  return rows;
}

// The rows of one generation that a query may not return.
class AbsentRows {
 public:
  AbsentRows() = default;
  explicit AbsentRows(const GenerationView& view)
      : all_(view.rows_live == 0),
        words_(view.tombstones == nullptr ? nullptr : view.tombstones->words().data()) {}

  bool Holds(int64_t slot) const {
    return all_ || (words_ != nullptr && (words_[slot / 64] >> (slot % 64) & 1) != 0);
  }

 private:
  bool all_ = false;
  const uint64_t* words_ = nullptr;  // null: no row is deleted
};

// The queries of a tile that see the same rows.
struct ViewGroup {
  Views views;
  std::vector<int64_t> queries;  // ascending
  // Set by the backend: the time of a search of its own, and its part of the work of a pass that
  // groups share.
  double own_us = 0;
  double work = 0;
};

// Return the groups of a tile, or of some of its queries, by their first queries. Cost: one look-up
// for each query.
std::vector<ViewGroup> GroupByViews(Views generations, const QueryTile& tile);
std::vector<ViewGroup> GroupByViews(Views generations, const QueryTile& tile,
                                    absl::Span<const int64_t> queries);

// Sorts the groups so that the first ones are searched each on its own, and the others in one pass,
// and returns how many are the first. shared_us(work): the time of a pass for groups whose work
// adds up to this.
size_t DivideGroups(std::vector<ViewGroup>& groups, absl::FunctionRef<double(double)> shared_us);

}  // namespace nearfield::backend
