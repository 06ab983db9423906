#include "server/attributes/value_counts.h"

#include <algorithm>
#include <cstddef>
#include <optional>

#include "absl/status/status.h"
#include "engine/base/check.h"
#include "engine/base/out_of_memory.h"

namespace nearfield::server {
namespace {

constexpr int64_t kValuesPerPoll = 65536;

// One value of one chunk, and its place among the values of the chunk.
struct ChunkValue {
  const AttributeIndex* index = nullptr;
  uint32_t code = 0;
  bool all_counted = false;  // every row of the chunk counts

  int64_t CountIn(const CountedRows& rows) const {
    const PostingLists& lists = index->rows();
    if (all_counted) return lists.entries_count({.begin = code, .end = code + 1});
    return lists.CountIn(code, rows.bits(), rows.rows());
  }
};

// Orders a heap by value, the smallest first.
bool ComesLater(const ChunkValue& a, const ChunkValue& b) {
  return a.index->CompareValue(a.code, *b.index, b.code) > 0;
}

// A value that may be returned. Values are numbered in ascending order.
struct Candidate {
  int64_t rows_count = 0;
  int64_t number = 0;
  ChunkValue value;
};

bool ComesBefore(const Candidate& a, const Candidate& b) {
  return a.rows_count != b.rows_count ? a.rows_count > b.rows_count : a.number < b.number;
}

// The best candidates so far: a heap with the worst of them on top.
class BestValues {
 public:
  explicit BestValues(int64_t values_max) : values_max_(static_cast<size_t>(values_max)) {}

  void Add(const Candidate& candidate) {
    if (best_.size() == values_max_) {
      if (!ComesBefore(candidate, best_.front())) return;
      std::pop_heap(best_.begin(), best_.end(), ComesBefore);
      best_.pop_back();
    }
    best_.push_back(candidate);
    std::push_heap(best_.begin(), best_.end(), ComesBefore);
  }

  std::vector<Candidate> Sorted() && {
    std::sort(best_.begin(), best_.end(), ComesBefore);
    return std::move(best_);
  }

 private:
  const size_t values_max_;
  std::vector<Candidate> best_;
};

// The values of all chunks in ascending order.
class ValueMerge {
 public:
  ValueMerge(const AttributeSnapshot& snapshot, int32_t attribute, const CountedRows& rows)
      : rows_(rows) {
    for (const auto& chunk : snapshot.chunks) {
      const AttributeIndex& index = chunk->index(attribute);
      if (index.rows().codes_count() == 0) continue;
      const bool all = rows.rows().IntersectionSize(chunk->rows()) == chunk->rows_count();
      next_.push_back({.index = &index, .code = 0, .all_counted = all});
    }
    std::make_heap(next_.begin(), next_.end(), ComesLater);
  }

  // Returns the next value with its number of rows, which may be 0; nullopt after the last one.
  std::optional<Candidate> Next() {
    if (next_.empty()) return std::nullopt;
    Candidate candidate = {.rows_count = 0, .number = number_++, .value = next_.front()};
    do {
      candidate.rows_count += Take();
    } while (!next_.empty() && !ComesLater(next_.front(), candidate.value));
    return candidate;
  }

 private:
  // Returns the number of rows of the first value, and moves to the one after it in its chunk.
  int64_t Take() {
    std::pop_heap(next_.begin(), next_.end(), ComesLater);
    ChunkValue& value = next_.back();
    const int64_t rows_count = value.CountIn(rows_);
    if (++value.code == value.index->rows().codes_count()) {
      next_.pop_back();
    } else {
      std::push_heap(next_.begin(), next_.end(), ComesLater);
    }
    return rows_count;
  }

  const CountedRows& rows_;
  std::vector<ChunkValue> next_;  // one for each chunk: a heap
  int64_t number_ = 0;
};

absl::StatusOr<ValueCounts> Count(const AttributeSnapshot& snapshot, int32_t attribute,
                                  const CountedRows& rows, const CountValuesOptions& options) {
  DCHECK_GE(options.values_max, 1);
  ValueCounts counts;
  counts.rows_missing = rows.rows().size();
  for (const auto& chunk : snapshot.chunks) {
    counts.rows_missing -= chunk->index(attribute).present().IntersectionSize(rows.rows());
  }
  BestValues best(options.values_max);
  ValueMerge values(snapshot, attribute, rows);
  while (const std::optional<Candidate> value = values.Next()) {
    const bool poll = value->number % kValuesPerPoll == 0;
    if (poll && options.cancelled && options.cancelled()) {
      return absl::CancelledError("no caller waits for the counts any more");
    }
    if (value->rows_count == 0) continue;
    ++counts.values_count;
    best.Add(*value);
  }
  counts.values = ValueColumn(snapshot.schema->at(attribute).type);
  for (const Candidate& value : std::move(best).Sorted()) {
    value.value.index->AppendValue(value.value.code, &counts.values);
    counts.rows_counts.push_back(value.rows_count);
  }
  return counts;
}

}  // namespace

absl::StatusOr<ValueCounts> CountValues(const AttributeSnapshot& snapshot, int32_t attribute,
                                        const CountedRows& rows,
                                        const CountValuesOptions& options) {
  return CatchOutOfMemory([&] { return Count(snapshot, attribute, rows, options); });
}

}  // namespace nearfield::server
