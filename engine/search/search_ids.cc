#include "engine/search/search_ids.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <utility>
#include <variant>

#include "engine/base/mutex.h"
#include "engine/base/status_macros.h"
#include "engine/search/answer_page.h"

namespace nearfield {
namespace {

using backend::ScanCost;
using corpus::Corpus;

// Takes a page of finished rows. `self`: the id that the answer leaves out; null: none. `memory`
// keeps the rows alive; null: they are copied.
void TakeFinished(const backend::FinishedRows& rows, const Query& query, int64_t rows_of_order,
                  const Id* self, const std::shared_ptr<const void>& memory, Neighbors* neighbors) {
  const auto count = static_cast<int64_t>(rows.ids.size());
  int64_t left_out = count;  // the place of self
  if (self != nullptr) {
    left_out =
        std::find(rows.ids.begin(), rows.ids.end(), std::get<uint64_t>(*self)) - rows.ids.begin();
  }
  const int64_t known = left_out < count ? count - 1 : count;
  const auto place_of = [&](int64_t row) { return row < left_out ? row : row + 1; };
  const Page page = PageOf(query, known, rows_of_order, [&](int64_t row) {
    return rows.scores[static_cast<size_t>(place_of(row))];
  });
  neighbors->more = page.more;
  const int64_t count_of_page = page.end - page.begin;
  if (memory != nullptr && left_out == count) {
    const auto first = static_cast<size_t>(page.begin);
    const auto rows_count = static_cast<size_t>(count_of_page);
    neighbors->ids.Lend(rows.ids.subspan(first, rows_count), memory);
    neighbors->scores.Lend(rows.scores.subspan(first, rows_count), memory);
    return;
  }
  std::vector<uint64_t> ids;
  std::vector<float> scores;
  ids.reserve(static_cast<size_t>(count_of_page));
  scores.reserve(ids.capacity());
  const auto copy = [&](int64_t begin, int64_t end) {
    if (begin >= end) return;
    const auto first = static_cast<size_t>(begin);
    const auto rows_count = static_cast<size_t>(end - begin);
    const auto of_ids = rows.ids.subspan(first, rows_count);
    const auto of_scores = rows.scores.subspan(first, rows_count);
    ids.insert(ids.end(), of_ids.begin(), of_ids.end());
    scores.insert(scores.end(), of_scores.begin(), of_scores.end());
  };
  copy(page.begin, std::min(page.end, left_out));
  copy(std::max(page.begin, left_out) + 1, page.end + 1);
  neighbors->ids = IdColumn::OfNumbers(std::move(ids));
  neighbors->scores = std::move(scores);
}

}  // namespace

bool IdsAreEnough(const CollectionSpec& spec, const SearchBatch& batch, int32_t k_max) {
  const RowParts& parts = batch.parts;
  return spec.id_type == IdType::kUint64 && !parts.vectors && !parts.payloads && !parts.ordinals &&
         std::all_of(batch.queries.begin(), batch.queries.end(), [k_max](const Query& query) {
           return query.page_cache == nullptr && query.terms == nullptr && !query.tell_parts &&
                  query.rows_wanted() <= k_max;
         });
}

absl::Status SearchIds(const Corpus& corpus, const RowSearch& search,
                       absl::Span<const Query> queries, absl::Span<const size_t> places,
                       ScanCost* cost, std::vector<Neighbors>* answers) {
  std::vector<int32_t> k;
  k.reserve(places.size());
  for (const size_t place : places) {
    k.push_back(static_cast<int32_t>(queries[place].rows_wanted()));
  }
  // Room for the answers is made when the first one is taken: while the device works, if it can be.
  std::atomic<bool> has_room{false};
  Mutex room;
  const auto answer_of = [&](size_t i) -> Neighbors& {
    if (!has_room.load(std::memory_order_acquire)) {
      const MutexLock lock(room);
      if (answers->size() < queries.size()) answers->resize(queries.size());
      has_room.store(true, std::memory_order_release);
    }
    Neighbors& neighbors = (*answers)[places[i]];
    neighbors.matched_rows = search.RowsOfOrder(i);
    return neighbors;
  };
  const auto take_finished = [&](size_t i, const QueryLists& lists) {
    const Query& query = queries[places[i]];
    Neighbors& neighbors = answer_of(i);
    TakeFinished(*lists.finished(), query, neighbors.matched_rows,
                 query.row_id ? &*query.row_id : nullptr, lists.lists.lent_memory(), &neighbors);
  };
  const auto take_place = [&](size_t i, const QueryLists& lists) {
    const Query& query = queries[places[i]];
    if (lists.lists.lent_memory() == nullptr || query.row_id || query.score_threshold) return false;
    take_finished(i, lists);
    return true;
  };
  const RowSearch shallow = {.rows = search.rows,
                             .queries = search.queries,
                             .k = k,
                             .cancelled = search.cancelled,
                             .may_finish = true,
                             .take_place = take_place};
  const auto take = [&](size_t i, const QueryLists& lists) -> absl::Status {
    if (lists.finished() != nullptr) {
      take_finished(i, lists);
      return absl::OkStatus();
    }
    Neighbors& neighbors = answer_of(i);
    ABSL_ASSIGN_OR_RETURN(const Hits hits, MergeBest(lists, k[i], search.queries.self[i]));
    const Page page =
        PageOf(queries[places[i]], static_cast<int64_t>(hits.size()), neighbors.matched_rows,
               [&](int64_t row) { return hits[static_cast<size_t>(row)].score; });
    const auto begin = static_cast<size_t>(page.begin);
    GatherOne(corpus, search.snapshot(),
              absl::MakeConstSpan(hits).subspan(begin, static_cast<size_t>(page.end) - begin), {},
              &neighbors);
    neighbors.more = page.more;
    return absl::OkStatus();
  };
  ABSL_RETURN_IF_ERROR(SearchRows(corpus, shallow, take, cost));
  if (answers->size() < queries.size()) answers->resize(queries.size());  // none was taken
  return absl::OkStatus();
}

}  // namespace nearfield
