#include "engine/search/merge_best.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "engine/score/neighbor_order.h"

namespace nearfield {
namespace {

using corpus::CorpusSnapshot;
using corpus::Generation;
using corpus::RankedScore;
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

absl::Status CheckLists(const CorpusSnapshot& snapshot,
                        absl::Span<const std::vector<RankedScore>> lists) {
  if (lists.size() != snapshot.generations.size()) {
    return absl::InternalError(absl::StrCat("the backend answered for ", lists.size(), " of ",
                                            snapshot.generations.size(), " generations"));
  }
  for (size_t g = 0; g < lists.size(); ++g) {
    const size_t rows_count = snapshot.generations[g].generation->slot_by_rank.size();
    for (const RankedScore& ranked : lists[g]) {
      if (ranked.rank >= rows_count) {
        return absl::InternalError(absl::StrCat("the backend answered with rank ", ranked.rank,
                                                " of ", rows_count, " rows"));
      }
    }
  }
  return absl::OkStatus();
}

// Returns the best rows of the only non-empty list, without comparisons.
std::vector<Hit> TakeBest(const CorpusSnapshot& snapshot, size_t generation,
                          const std::vector<RankedScore>& list, int32_t k,
                          const std::optional<RowRef>& self) {
  const Generation& rows = *snapshot.generations[generation].generation;
  std::vector<Hit> hits;
  hits.reserve(std::min(list.size(), static_cast<size_t>(k)));
  for (size_t i = 0; i < list.size() && hits.size() < static_cast<size_t>(k); ++i) {
    if (i + kRowsAhead < list.size()) {
      __builtin_prefetch(rows.slot_by_rank.data() + list[i + kRowsAhead].rank);
    }
    const RowRef row = {.generation = static_cast<uint32_t>(generation),
                        .slot = rows.slot_by_rank[list[i].rank]};
    if (row != self) hits.push_back({.score = list[i].score, .row = row});
  }
  return hits;
}

}  // namespace

absl::StatusOr<std::vector<Hit>> MergeBest(const CorpusSnapshot& snapshot,
                                           absl::Span<const std::vector<RankedScore>> lists,
                                           int32_t k, const std::optional<RowRef>& self) {
  if (absl::Status status = CheckLists(snapshot, lists); !status.ok()) return status;
  std::vector<Head> heads;
  size_t rows_count = 0;
  for (size_t g = 0; g < lists.size(); ++g) {
    rows_count += lists[g].size();
    if (!lists[g].empty()) heads.push_back(HeadAt(snapshot, g, 0, lists[g][0]));
  }
  if (heads.size() == 1) {
    const size_t only = heads.front().generation;
    return TakeBest(snapshot, only, lists[only], k, self);
  }
  std::make_heap(heads.begin(), heads.end(), ComesAfter);

  std::vector<Hit> hits;
  hits.reserve(std::min(rows_count, static_cast<size_t>(k)));
  while (!heads.empty() && hits.size() < static_cast<size_t>(k)) {
    std::pop_heap(heads.begin(), heads.end(), ComesAfter);
    const Head best = heads.back();
    heads.pop_back();
    const RowRef row = {.generation = static_cast<uint32_t>(best.generation),
                        .slot = static_cast<uint32_t>(best.row.index)};
    if (row != self) hits.push_back({.score = best.row.score, .row = row});
    const std::vector<RankedScore>& list = lists[best.generation];
    if (best.place + 1 < list.size()) {
      heads.push_back(HeadAt(snapshot, best.generation, best.place + 1, list[best.place + 1]));
      std::push_heap(heads.begin(), heads.end(), ComesAfter);
    }
  }
  return hits;
}

}  // namespace nearfield
