// RankedLists: the results of one backend search: for each query its best rows in each generation,
// or its best rows of all of them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "engine/base/check.h"
#include "engine/base/scratch_buffer.h"
#include "engine/score/order.h"

namespace nearfield::backend {

// A row of a list: its score, and its rank in its generation.
struct RankedScore {
  float score = 0;
  uint32_t rank = 0;
};

// The first rows of a query's answer, by (score descending, id ascending).
struct FinishedRows {
  absl::Span<const float> scores;
  absl::Span<const uint64_t> ids;
};

// One list of rows for each (query, generation), ordered by (score descending, rank ascending). All
// lists lie in one block, which is reused by the next search. A query that the backend has finished
// has its answer in place of lists.
// Thread safety: different lists may be written at once.
class RankedLists {
 public:
  // Makes room for the lists of k.size() queries, each of up to the largest k rows, and empties
  // them. Allocates only if the block grows.
  void Reset(absl::Span<const int32_t> k, size_t generations_count) {
    queries_count_ = k.size();
    generations_count_ = generations_count;
    pitch_ = k.empty() ? 0 : static_cast<size_t>(*std::max_element(k.begin(), k.end()));
    places_.resize(queries_count_ * generations_count);
    auto place = places_.begin();
    for (size_t query = 0; query < queries_count_; ++query) {
      for (size_t generation = 0; generation < generations_count; ++generation) {
        *place++ = {.begin = static_cast<uint32_t>(generation * pitch_),
                    .room = static_cast<uint32_t>(pitch_)};
      }
    }
    rows_.Ensure(static_cast<int64_t>(places_.size() * pitch_));
    orders_.Ensure(static_cast<int64_t>(places_.size() * pitch_));
    order_counts_.assign(queries_count_, 0);
    DropFinished();
  }

  // Gives a query its answer. Requires: its rows are in the memory that is held, even if there are
  // none.
  void Finish(size_t query, const FinishedRows& rows) { finished_[query] = rows; }
  // Takes a query's answer away: it has lists.
  void Unfinish(size_t query) { finished_[query] = {}; }
  // Holds the memory of finished rows until the next Reset. `lends`: answers may refer to the rows
  // and keep that memory.
  void Hold(std::shared_ptr<const void> memory, bool lends) {
    finished_memory_ = std::move(memory);
    if (lends) lent_memory_ = finished_memory_;
  }
  // Returns what keeps finished rows alive, or null: they must be copied before the next Reset.
  const std::shared_ptr<const void>& lent_memory() const { return lent_memory_; }
  // Returns the memory of finished rows. No query is finished then.
  void DropFinished() {
    finished_.assign(queries_count_, {});
    finished_memory_.reset();
    lent_memory_.reset();
  }
  // Returns the answer of a query, or null: it has lists.
  const FinishedRows* finished(size_t query) const {
    DCHECK_LT(query, queries_count_);
    return finished_[query].scores.data() != nullptr ? &finished_[query] : nullptr;
  }

  size_t queries_count() const { return queries_count_; }
  size_t generations_count() const { return generations_count_; }

  absl::Span<const RankedScore> list(size_t query, size_t generation) const {
    const Place& place = places_[ListIndex(query, generation)];
    return {RowsOf(query) + place.begin, place.count};
  }

  // Changes the number of rows of a list and returns them. The values of new rows are undefined.
  // Requires: count <= pitch.
  absl::Span<RankedScore> Resize(size_t query, size_t generation, size_t count) {
    CHECK_LE(count, pitch_);
    Place& place = places_[ListIndex(query, generation)];
    place.count = static_cast<uint32_t>(count);
    return {RowsOf(query) + place.begin, count};
  }

  // Replaces the lists of a query by empty ones that lie close together: the list of each
  // generation has room for counts[generation] rows, which Append adds. Requires: a count is at
  // most pitch.
  void MakeRoom(size_t query, absl::Span<const uint32_t> counts) {
    DCHECK_EQ(counts.size(), generations_count_);
    uint32_t begin = 0;
    for (size_t generation = 0; generation < counts.size(); ++generation) {
      CHECK_LE(counts[generation], pitch_);
      places_[ListIndex(query, generation)] = {.begin = begin, .room = counts[generation]};
      begin += counts[generation];
    }
    order_counts_[query] = 0;
  }
  void Append(size_t query, size_t generation, const RankedScore& row) {
    Place& place = places_[ListIndex(query, generation)];
    CHECK_LT(place.count, place.room);
    RowsOf(query)[place.begin + place.count++] = row;
    orders_.get()[query * generations_count_ * pitch_ + order_counts_[query]++] =
        static_cast<uint8_t>(generation);
  }
  // Returns the generations of a query's rows in the order of Append. If all rows of the lists were
  // appended, by descending score, the lists need not be merged.
  absl::Span<const uint8_t> order(size_t query) const {
    DCHECK_LT(query, queries_count_);
    return {orders_.get() + query * generations_count_ * pitch_, order_counts_[query]};
  }

  // Replaces a list by the rows of order keys (score/order.h). Requires: the keys descend.
  void Assign(size_t query, size_t generation, absl::Span<const uint64_t> keys) {
    DCHECK(std::adjacent_find(keys.begin(), keys.end(), std::less_equal<>()) == keys.end());
    RankedScore* row = Resize(query, generation, keys.size()).data();
    for (const uint64_t key : keys) *row++ = {score::KeyScore(key), score::KeyRank(key)};
  }

 private:
  // A list, among the rows of its query.
  struct Place {
    uint32_t begin = 0;
    uint32_t count = 0;
    uint32_t room = 0;
  };

  RankedScore* RowsOf(size_t query) const {
    return rows_.get() + query * generations_count_ * pitch_;
  }
  size_t ListIndex(size_t query, size_t generation) const {
    DCHECK_LT(query, queries_count_);
    DCHECK_LT(generation, generations_count_);
    return query * generations_count_ + generation;
  }

  size_t queries_count_ = 0;
  size_t generations_count_ = 0;
  size_t pitch_ = 0;
  std::vector<Place> places_;           // [queries][generations]
  ScratchBuffer<RankedScore> rows_;     // [queries][generations * pitch]
  ScratchBuffer<uint8_t> orders_;       // [queries][generations * pitch]
  std::vector<uint32_t> order_counts_;  // [queries]
  std::vector<FinishedRows> finished_;  // [queries]
  std::shared_ptr<const void> finished_memory_;
  std::shared_ptr<const void> lent_memory_;  // the same, or null
};

}  // namespace nearfield::backend
