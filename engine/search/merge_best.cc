#include "engine/search/merge_best.h"

#include <algorithm>
#include <array>
#include <limits>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "engine/base/check.h"
#include "engine/score/neighbor_order.h"

namespace nearfield {
namespace {

using backend::RankedScore;
using corpus::CorpusSnapshot;
using corpus::Generation;
using corpus::RowRef;

// The next row of one generation's list.
struct Head {
  score::ScoredId row;
  size_t generation = 0;
  size_t place = 0;
};

// The heap keeps its largest element at the front: here, the row that comes first in the answer.
bool ComesAfter(const Head& a, const Head& b) { return score::ComesBefore(b.row, a.row); }

Head HeadAt(const CorpusSnapshot& snapshot, size_t generation, size_t place,
            const RankedScore& ranked) {
  const Generation& rows = *snapshot.generations[generation].generation;
  return {.row = {.score = ranked.score, .ids = &rows.ids, .index = rows.slot_by_rank[ranked.rank]},
          .generation = generation,
          .place = place};
}

// Checks the ranks of all lists, and prefetches the slots of these rows.
absl::Status CheckRanks(const QueryLists& best) {
  for (size_t g = 0; g < best.lists.generations_count(); ++g) {
    const auto& slot_by_rank = best.snapshot.generations[g].generation->slot_by_rank;
    const size_t rows_count = slot_by_rank.size();
    for (const RankedScore& ranked : best.of(g)) {
      if (ranked.rank >= rows_count) {
        return absl::InternalError(absl::StrCat("the backend answered with rank ", ranked.rank,
                                                " of ", rows_count, " rows"));
      }
      __builtin_prefetch(slot_by_rank.data() + ranked.rank);
    }
  }
  return absl::OkStatus();
}

score::ScoredId ScoredIdOf(const CorpusSnapshot& snapshot, const Hit& hit) {
  return {.score = hit.score,
          .ids = &snapshot.generations[hit.row.generation].generation->ids,
          .index = hit.row.slot};
}

// Returns the best rows of the only non-empty list, without comparisons.
std::vector<Hit> TakeBest(const QueryLists& best, size_t generation, int32_t k,
                          const std::optional<RowRef>& self) {
  const Generation& rows = *best.snapshot.generations[generation].generation;
  const absl::Span<const RankedScore> list = best.of(generation);
  std::vector<Hit> hits;
  hits.reserve(std::min(list.size(), static_cast<size_t>(k)));
  for (size_t i = 0; i < list.size() && hits.size() < static_cast<size_t>(k); ++i) {
    const RowRef row = {.generation = static_cast<uint32_t>(generation),
                        .slot = rows.slot_by_rank[list[i].rank]};
    if (row != self) hits.push_back({.score = list[i].score, .row = row});
  }
  return hits;
}

// Rows of the k-th score beyond k that fit without another allocation.
constexpr size_t kTiesExpected = 16;

// Sorts rows of equal score by id.
void SortTies(const CorpusSnapshot& snapshot, std::vector<Hit>& hits, size_t begin) {
  if (hits.size() - begin < 2) return;
  std::sort(hits.begin() + static_cast<std::ptrdiff_t>(begin), hits.end(),
            [&snapshot](const Hit& a, const Hit& b) {
              return score::ComesBefore(ScoredIdOf(snapshot, a), ScoredIdOf(snapshot, b));
            });
}

// Returns the best rows of lists whose rows come in the order of their scores: `order` names the
// generation of each row.
absl::StatusOr<std::vector<Hit>> TakeInOrder(const QueryLists& best,
                                             absl::Span<const uint8_t> order, int32_t k,
                                             const std::optional<RowRef>& self) {
  const auto wanted = static_cast<size_t>(k);
  std::array<size_t, kGenerationsMax> places = {};
  std::vector<Hit> hits;
  hits.reserve(std::min(order.size(), wanted + kTiesExpected));
  size_t ties_begin = 0;  // of the rows with the last score
  float last = std::numeric_limits<float>::infinity();
  for (const uint8_t generation : order) {
    const absl::Span<const RankedScore> list = best.of(generation);
    if (places[generation] == list.size()) {
      return absl::InternalError("the backend's order names more rows than a list has");
    }
    const RankedScore& ranked = list[places[generation]++];
    if (ranked.score > last) return absl::InternalError("the backend's rows are out of order");
    if (ranked.score < last) {
      SortTies(best.snapshot, hits, ties_begin);
      if (hits.size() >= wanted) break;
      ties_begin = hits.size();
      last = ranked.score;
    }
    const Generation& rows = *best.snapshot.generations[generation].generation;
    const RowRef row = {.generation = generation, .slot = rows.slot_by_rank[ranked.rank]};
    if (row != self) hits.push_back({.score = ranked.score, .row = row});
  }
  SortTies(best.snapshot, hits, ties_begin);
  hits.resize(std::min(hits.size(), wanted));
  return hits;
}

// Returns true if the rows are in the total order, which also excludes duplicates.
bool InOrder(const CorpusSnapshot& snapshot, const std::vector<Hit>& hits) {
  return std::adjacent_find(hits.begin(), hits.end(), [&](const Hit& a, const Hit& b) {
           return !score::ComesBefore(ScoredIdOf(snapshot, a), ScoredIdOf(snapshot, b));
         }) == hits.end();
}

}  // namespace

absl::StatusOr<std::vector<Hit>> MergeBest(const QueryLists& best, int32_t k,
                                           const std::optional<RowRef>& self) {
  if (absl::Status status = CheckRanks(best); !status.ok()) return status;
  std::vector<Head> heads;
  size_t rows_count = 0;
  for (size_t g = 0; g < best.lists.generations_count(); ++g) {
    const absl::Span<const RankedScore> list = best.of(g);
    rows_count += list.size();
    if (!list.empty()) heads.push_back(HeadAt(best.snapshot, g, 0, list[0]));
  }
  if (heads.size() == 1) {
    std::vector<Hit> hits = TakeBest(best, heads.front().generation, k, self);
    DCHECK(InOrder(best.snapshot, hits));
    return hits;
  }
  if (const absl::Span<const uint8_t> order = best.lists.order(best.query);
      order.size() == rows_count) {
    absl::StatusOr<std::vector<Hit>> hits = TakeInOrder(best, order, k, self);
    DCHECK(!hits.ok() || InOrder(best.snapshot, *hits));
    return hits;
  }
  std::make_heap(heads.begin(), heads.end(), ComesAfter);

  std::vector<Hit> hits;
  hits.reserve(std::min(rows_count, static_cast<size_t>(k)));
  while (!heads.empty() && hits.size() < static_cast<size_t>(k)) {
    std::pop_heap(heads.begin(), heads.end(), ComesAfter);
    const Head head = heads.back();
    heads.pop_back();
    const RowRef row = {.generation = static_cast<uint32_t>(head.generation),
                        .slot = static_cast<uint32_t>(head.row.index)};
    if (row != self) hits.push_back({.score = head.row.score, .row = row});
    const absl::Span<const RankedScore> list = best.of(head.generation);
    if (head.place + 1 < list.size()) {
      heads.push_back(HeadAt(best.snapshot, head.generation, head.place + 1, list[head.place + 1]));
      std::push_heap(heads.begin(), heads.end(), ComesAfter);
    }
  }
  DCHECK(InOrder(best.snapshot, hits));
  return hits;
}

}  // namespace nearfield
