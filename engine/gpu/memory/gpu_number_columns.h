// GpuNumberColumns: the numbers that row terms read, by slot, in slabs of the arena.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "engine/backend/term_source.h"
#include "engine/base/mutex.h"
#include "engine/gpu/kernels/terms/number_column.h"
#include "engine/gpu/memory/gpu_core.h"
#include "engine/gpu/memory/slab_range.h"

namespace nearfield::gpu {

// Makes columns and keeps the recently used ones, in at most 1/16 of the arena. The arena is for
// rows, so the owner calls Clear when rows do not fit. Thread-safe.
class GpuNumberColumns {
 public:
  explicit GpuNumberColumns(std::shared_ptr<GpuCore> core) : core_(std::move(core)) {}

  // A column and its memory.
  struct Stored {
    explicit Stored(std::shared_ptr<GpuCore> core) : memory(std::move(core)) {}
    SlabRange memory;
    NumberColumn column;
  };
  // It lives until the last holder releases it.
  using Column = std::shared_ptr<const Stored>;

  // Returns the numbers of a generation with `rows_count` rows, on the device. Cost: 8.5 bytes
  // for each row over the link, if the column is not kept. Errors: ResourceExhausted, Unavailable.
  absl::StatusOr<Column> Get(const backend::TermSource& source, size_t term, size_t generation,
                             int64_t rows_count);

  // Releases all columns that no search uses. Returns false if there was none.
  bool Clear();
  // Returns the bytes of the arena that Clear would give back, if no search runs.
  int64_t device_bytes() const;

 private:
  struct Entry {
    backend::NumbersSource source;
    Column column;
  };

  absl::StatusOr<Column> Make(const backend::TermSource& source, size_t term, size_t generation,
                              int64_t rows_count);
  absl::Status MakeRoom(int64_t bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::shared_ptr<GpuCore> core_;
  mutable Mutex mutex_;
  std::list<Entry> entries_ ABSL_GUARDED_BY(mutex_);  // most recently used first
};

}  // namespace nearfield::gpu
