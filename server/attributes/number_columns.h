// NumberColumns: the numbers of attributes by ordinal, as row terms of searches read them.
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <memory>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "engine/base/memory_budget.h"
#include "engine/base/mutex.h"
#include "nearfield/engine/row_terms.h"
#include "server/attributes/columns.h"

namespace nearfield::server {

// Makes columns and keeps the recently used ones; one object serves all collections. A column is
// valid for all rows of its version of the attributes, at any epoch, as a filter's rows are. The
// bytes of every column count until its last holder releases it. Thread-safe.
class NumberColumns {
 public:
  explicit NumberColumns(int64_t bytes_max)
      : budget_(MemoryBudget::Make(bytes_max,
                                   "term_memory_bytes, the memory for the numbers of row terms")) {}

  // Returns the numbers of an attribute: an int64 rounded to nearest, a time in microseconds since
  // the Unix epoch, a bool as 0 or 1. Callers with the same version share one column. Requires: the
  // attribute is a scalar of the snapshot's schema, and no keyword. Cost: about 10 ns for each row,
  // if the column is not kept. Errors: Cancelled, ResourceExhausted (needed and free bytes, if the
  // columns in use leave too little).
  absl::StatusOr<std::shared_ptr<const RowNumbers>> Get(const AttributeSnapshot& snapshot,
                                                        int32_t attribute,
                                                        const std::function<bool()>& cancelled);
  // Returns the column if it is kept, else null.
  std::shared_ptr<const RowNumbers> Find(const AttributeSnapshot& snapshot, int32_t attribute);

  int64_t bytes() const { return budget_->bytes_used(); }

 private:
  struct Entry {
    uint64_t version = 0;
    int32_t attribute = 0;
    std::shared_ptr<const RowNumbers> numbers;
  };

  // Reserves memory; releases the least recently used columns while there is too little.
  absl::StatusOr<MemoryReservation> Reserve(int64_t bytes);
  // Returns the column that is kept: an earlier one, if another caller was faster.
  std::shared_ptr<const RowNumbers> Keep(Entry entry);

  const std::shared_ptr<MemoryBudget> budget_;
  Mutex mutex_;
  std::list<Entry> entries_ ABSL_GUARDED_BY(mutex_);  // most recently used first
};

}  // namespace nearfield::server
