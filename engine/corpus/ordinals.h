// Ordinals: the ordinals of a generation's rows, by slot. An ordinal is the number by which filters
// (RowFilter) address a row. An upload gets the lowest free range that is long enough
// (ordinal_pool.h), which may be one of dead rows. They are stored as runs of consecutive ordinals.
// Runs are long because rows keep their upload order.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/types/span.h"
#include "nearfield/engine/row_filter.h"

namespace nearfield::corpus {

class Ordinals {
 public:
  static constexpr int64_t kRunBytes = 8;

  Ordinals() = default;
  // Makes the ordinals first, first + 1, ...
  Ordinals(uint32_t first, int64_t rows_count);

  int64_t size() const { return rows_count_; }
  int64_t bytes() const { return static_cast<int64_t>(runs_.capacity() * sizeof(Run)); }
  int64_t runs_count() const { return static_cast<int64_t>(runs_.size()); }
  // Requires: slot < size(). Cost: log(runs).
  uint32_t at(uint32_t slot) const;

  // Calls visit(ordinal, count) for each run of consecutive ordinals of slots [begin, end).
  // Requires: end <= size(). Cost: log(runs) and one call for each run.
  void ForEachRun(int64_t begin, int64_t end,
                  absl::FunctionRef<void(uint32_t ordinal, int64_t count)> visit) const;

  // Appends the ordinal of the next slot.
  void Append(uint32_t ordinal);

  // Sets bit (slot % 64) of word slot / 64 for each row that `filter` chooses. Requires: `words`
  // are zero and have size() bits.
  void Choose(const RowFilter& filter, absl::Span<uint64_t> words) const;

 private:
  struct Run {
    uint32_t slot = 0;     // first slot of the run
    uint32_t ordinal = 0;  // ordinal of this slot
  };
  static_assert(sizeof(Run) == kRunBytes);
  // Returns the place of the run that has the slot.
  size_t RunOf(int64_t slot) const;
  int64_t EndOf(size_t run) const {
    return run + 1 < runs_.size() ? int64_t{runs_[run + 1].slot} : rows_count_;
  }

  std::vector<Run> runs_;  // by slot
  int64_t rows_count_ = 0;
};

}  // namespace nearfield::corpus
