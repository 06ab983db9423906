// BatchSearch: the strategy that scans codes or rows for many queries together, on the tensor cores
// (see kernels/batch/batch.h).
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
  std::vector<int64_t> singles;     // these are faster one by one; only of codes
  std::vector<int64_t> overflowed;  // these had too many candidates
};

// How a batch searches.
struct BatchWay {
  BatchSource source = BatchSource::kCodes;
  // Longer queues hold the candidates of queries whose first rows give a poor threshold. They take
  // longer to find out that a bound is of no use for the data.
  bool long_queues = false;
};

// Returns true if the kernels can answer the queries of a job from exact rows.
bool BatchServesRows(const GpuCore& core, const SearchJob& job);

// Thread safety: one search at a time; it uses the workspace of the core.
class BatchSearch {
 public:
  explicit BatchSearch(GpuCore& core) : core_(core) {}

  // Answers some queries: of codes, those that are faster together than one by one, or all if the
  // device cannot search codes for one query. Adds the others to `left`. Requires: job.corpus is
  // set; BatchServesRows if the rows are scanned. Errors: Cancelled, Unavailable.
  absl::Status Search(const SearchJob& job, const BatchWay& way, QuerySpan queries,
                      SearchOutput& out, BatchLeft& left);

 private:
  // Queries that are answered together.
  struct Shape {
    BatchWay way;
    QuerySpan queries;     // empty: the batch kernels cannot serve them
    int place = 0;         // of their buffers: below kBatchesMax
    int64_t capacity = 0;  // entries per queue
    int32_t k = 0;         // largest k of these queries
    int32_t keys_pitch = 0;
  };

  Shape ShapeBatch(const SearchJob& job, const BatchWay& way, QuerySpan queries) const;
  absl::Status StageVectors(const SearchJob& job, const Shape& shape, char* host, BatchArgs& args);
  absl::StatusOr<BatchArgs> Stage(const SearchJob& job, const Shape& shape);
  absl::Status EnqueueAnswers(const SearchJob& job, const Shape& shape, const BatchArgs& args);
  absl::Status Enqueue(const SearchJob& job, const Shape& shape);
  // The state of the device while the answers of some queries are taken.
  enum class DeviceIs : uint8_t { kIdle, kBusy };
  absl::Status Finish(const SearchJob& job, const Shape& shape, DeviceIs device, SearchOutput& out,
                      BatchLeft& left) const;

  GpuCore& core_;
};

}  // namespace nearfield::gpu
