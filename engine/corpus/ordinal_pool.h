// OrdinalPool: the ordinals of a collection's rows that are in use, and those that are free.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "engine/base/mutex.h"

namespace nearfield::corpus {

// Takes the lowest free range that is long enough. So a bitmap by ordinal is as wide as the highest
// ordinal in use, not as the number of rows ever uploaded. Memory: one bit for each ordinal up to
// the highest one in use. Thread-safe.
class OrdinalPool {
 public:
  // Requires: 1 <= ordinals_max <= 2^32.
  explicit OrdinalPool(int64_t ordinals_max) : ordinals_max_(ordinals_max) {}

  // Takes `rows_count` consecutive ordinals and returns the first. Requires: rows_count > 0.
  // Errors: ResourceExhausted (no free range is that long, or no host memory). Cost: at most one
  // pass over the words of the bitmap, beginning at the first free ordinal.
  absl::StatusOr<uint32_t> Take(int64_t rows_count);

  // Makes ordinals free. Requires: all of them are in use.
  void Release(uint32_t first, int64_t rows_count) noexcept;

 private:
  // Returns the start of the first free range below end_ that is long enough.
  std::optional<int64_t> FindFree(int64_t rows_count) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Sets or clears bits [begin, end) of free_.
  void SetFree(int64_t begin, int64_t end, bool free) noexcept
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Returns true if the members agree with each other. Cost: one pass over the bitmap.
  bool IsConsistent() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Moves end_ below the free ordinals immediately before it.
  void Trim() noexcept ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const int64_t ordinals_max_;
  Mutex mutex_;
  // Bit i % 64 of word i / 64: ordinal i is free; ends at end_.
  std::vector<uint64_t> free_ ABSL_GUARDED_BY(mutex_);
  // Ordinals >= end_ are free; the one before it is in use.
  int64_t end_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t free_count_ ABSL_GUARDED_BY(mutex_) = 0;        // free ordinals below end_
  size_t first_word_ ABSL_GUARDED_BY(mutex_) = 0;         // all words of free_ before it are zero
  int64_t too_long_ ABSL_GUARDED_BY(mutex_) = INT64_MAX;  // every free range below end_ is shorter
};

}  // namespace nearfield::corpus
