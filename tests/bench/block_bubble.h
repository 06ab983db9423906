// The first version of this service, kept as a baseline for the benchmark and the tests; the engine
// does not use it. One thread per row scores, one thread per block inserts by bubbling, one thread
// merges.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "nearfield/engine/engine.h"
#include "nearfield/engine/select.h"

namespace nearfield::bench {

// Rows in device memory, row-major fp32.
struct BlockBubbleRows {
  const float* rows = nullptr;  // device: [rows_count, dim]
  int64_t rows_count = 0;
  int32_t dim = 0;
};

// Returns the min(k, rows_count) best rows by dot product; ids are row numbers. Copies the query to
// the device, searches, copies the results back. Scores and order are the engine's, so answers
// compare bit for bit. Keeps scratch memory between calls. Thread safety: not thread-safe.
absl::StatusOr<Neighbors> BlockBubbleSearch(const BlockBubbleRows& rows,
                                            absl::Span<const float> query, int32_t k);

// The same selection over a row of scores, for the selection benchmark: for one row of fp32 and at
// most tens of milliseconds of work.
bool BlockBubbleSupports(const select::Shape& shape);

int64_t BlockBubbleWorkspaceBytes(const select::Shape& shape);

// Like Selector::Run, for a shape that BlockBubbleSupports accepts. The workspace may hold
// anything.
absl::Status BlockBubbleSelect(const select::Shape& shape, const select::Buffers& buffers,
                               cudaStream_t stream);

}  // namespace nearfield::bench
