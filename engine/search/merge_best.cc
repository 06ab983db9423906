#include "engine/search/merge_best.h"

#include <algorithm>
#include <array>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "engine/base/check.h"
#include "engine/score/neighbor_order.h"
#include "engine/score/order.h"

namespace nearfield {
namespace {

using backend::RankedScore;
using corpus::CorpusSnapshot;
using corpus::Generation;
using corpus::RowRef;

// The next rows of the lists of all generations.
class Heads {
 public:
  explicit Heads(const QueryLists& best) : best_(best) {
    for (size_t g = 0; g < best.lists.generations_count(); ++g) Advance(g, 0);
  }

  // Returns the generation of the row that comes first. Requires: a list has a row left.
  size_t First() const {
    // There are few generations, and ties are rare: this is faster than a heap.
    uint32_t top = 0;
    for (const uint32_t order : orders_) top = std::max(top, order);
    size_t first = orders_.size();
    for (size_t g = 0; g < orders_.size(); ++g) {
      if (orders_[g] != top) continue;
      if (first == orders_.size() || score::ComesBefore(RowOf(g), RowOf(first))) first = g;
    }
    return first;
  }

  // Takes the next row of a generation's list.
  Hit Take(size_t generation) {
    const score::ScoredId row = RowOf(generation);
    row.ids->Prefetch(row.index);  // the answer needs it
    Advance(generation, places_[generation] + 1);
    return {.score = row.score,
            .row = {.generation = static_cast<uint32_t>(generation),
                    .slot = static_cast<uint32_t>(row.index)}};
  }

 private:
  void Advance(size_t generation, size_t place) {
    const absl::Span<const RankedScore> list = best_.of(generation);
    places_[generation] = place;
    orders_[generation] = place < list.size() ? score::OrderedBits(list[place].score) : 0;
  }

  score::ScoredId RowOf(size_t generation) const {
    const RankedScore& ranked = best_.of(generation)[places_[generation]];
    const Generation& rows = *best_.snapshot.generations[generation].generation;
    return {.score = ranked.score, .ids = &rows.ids, .index = rows.slot_by_rank[ranked.rank]};
  }

  const QueryLists& best_;
  std::array<size_t, kGenerationsMax> places_ = {};
  // Ordered bits of the rows' scores; 0: the list has no row left.
  std::array<uint32_t, kGenerationsMax> orders_ = {};
};

// Checks the ranks of all lists, and prefetches the slots of these rows.
absl::Status CheckRanks(const QueryLists& best) {
  for (size_t g = 0; g < best.lists.generations_count(); ++g) {
    const auto& slot_by_rank = best.snapshot.generations[g].generation->slot_by_rank;
    for (const RankedScore& ranked : best.of(g)) {
      if (ranked.rank >= slot_by_rank.size()) {
        return absl::InternalError(absl::StrCat("the backend answered with rank ", ranked.rank,
                                                " of ", slot_by_rank.size(), " rows"));
      }
      __builtin_prefetch(slot_by_rank.data() + ranked.rank);
    }
  }
  return absl::OkStatus();
}

// Returns true if the rows are in the total order, which also excludes duplicates.
bool InOrder(const CorpusSnapshot& snapshot, const std::vector<Hit>& hits) {
  const auto scored_id = [&snapshot](const Hit& hit) {
    return score::ScoredId{.score = hit.score,
                           .ids = &snapshot.generations[hit.row.generation].generation->ids,
                           .index = hit.row.slot};
  };
  return std::adjacent_find(hits.begin(), hits.end(), [&](const Hit& a, const Hit& b) {
           return !score::ComesBefore(scored_id(a), scored_id(b));
         }) == hits.end();
}

}  // namespace

absl::StatusOr<std::vector<Hit>> MergeBest(const QueryLists& best, int32_t k,
                                           const std::optional<RowRef>& self) {
  if (absl::Status status = CheckRanks(best); !status.ok()) return status;
  size_t rows_left = 0;
  for (size_t g = 0; g < best.lists.generations_count(); ++g) rows_left += best.of(g).size();
  Heads heads(best);
  std::vector<Hit> hits;
  hits.reserve(std::min(rows_left, static_cast<size_t>(k)));
  for (; rows_left > 0 && hits.size() < static_cast<size_t>(k); --rows_left) {
    const Hit hit = heads.Take(heads.First());
    if (hit.row != self) hits.push_back(hit);
  }
  DCHECK(InOrder(best.snapshot, hits));
  return hits;
}

}  // namespace nearfield
