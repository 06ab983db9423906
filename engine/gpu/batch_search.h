// BatchSearch: the strategy that scans codes for many queries together, on the tensor cores (see
// kernels/batch/batch.h).
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/gpu/kernels/batch/batch.h"
#include "engine/gpu/memory/gpu_core.h"
#include "engine/gpu/search_job.h"

namespace nearfield::gpu {

// Queries that a batch did not answer.
struct BatchLeft {
  std::vector<int64_t> singles;        // these are faster one by one
  std::vector<QueryRange> overflowed;  // these had too many candidates
};

// Thread safety: one search at a time; it uses the workspace of the core.
class BatchSearch {
 public:
  explicit BatchSearch(GpuCore& core) : core_(core) {}

  // Answers the queries that are faster together than one by one, or all if the device cannot
  // search codes for one query. Adds the others to `left`. Requires: job.corpus is set. Errors:
  // Cancelled, Unavailable.
  absl::Status Search(const SearchJob& job, SearchOutput& out, BatchLeft& left);

 private:
  // Queries that are answered together.
  struct Shape {
    int64_t first_query = 0;
    int place = 0;         // of their buffers: below kBatchesMax
    int64_t queries = 0;   // 0: the batch kernels cannot serve them
    int64_t capacity = 0;  // entries per queue
    int32_t k = 0;         // largest k of these queries
    int32_t keys_pitch = 0;
  };

  Shape ShapeBatch(const SearchJob& job, int64_t first_query) const;
  absl::StatusOr<BatchArgs> Stage(const SearchJob& job, const Shape& shape);
  absl::Status EnqueueAnswers(const SearchJob& job, const Shape& shape, const BatchArgs& args);
  absl::Status Enqueue(const SearchJob& job, const Shape& shape);
  absl::Status Finish(const SearchJob& job, const Shape& shape, SearchOutput& out,
                      BatchLeft& left) const;

  GpuCore& core_;
};

}  // namespace nearfield::gpu
