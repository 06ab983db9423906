// DeviceSearch: a search whose queries and answers are in the memory of the engine's GPU.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "nearfield/engine/collection.h"
#include "nearfield/engine/row_filter.h"
#include "nearfield/engine/types.h"

namespace nearfield {

// Memory of the engine's GPU, for the answers of device searches. Capacity::device_bytes_used
// counts it until it is destroyed.
class DeviceMemory {
 public:
  // Blocks until all work of this process on the GPU is done, as cudaFree does, because kernels of
  // the caller may still use the memory.
  virtual ~DeviceMemory() = default;
  virtual char* data() const = 0;  // 256-byte aligned
  virtual int64_t bytes() const = 0;
};

// All pointers are to memory of the engine's GPU, contiguous, and borrowed for the call.
struct DeviceSearch {
  const void* queries = nullptr;  // [queries_count, dim], row-major
  RowType query_type = RowType::kFloat32;
  int64_t queries_count = 0;  // 1 .. batch_max
  int32_t dim = 0;            // that of the collection
  int32_t k = 10;             // of every query: 1 .. k_max
  // A cudaStream_t of the caller, or null for the legacy default stream. The search takes place
  // after all work that the stream has now.
  void* stream = nullptr;
  std::shared_ptr<const RowFilter> filter;  // rows that may be in the answer; null: all
  std::optional<float> score_threshold;     // rows with a lower score are not; not NaN
  // The state to search, of this collection; null: the current one.
  std::shared_ptr<const PinnedEpoch> at;
  // Called between steps of long work; true ends the call with Cancelled. May be empty.
  std::function<bool()> cancelled;

  // Destination of the answers, ordered by (score descending, id ascending). counts[i] neighbors of
  // query i begin at element i * k. The remaining elements of its k get the score NaN, which no row
  // has, and the id 2^64 - 1. Undefined if the search fails.
  float* scores = nullptr;    // [queries_count, k]
  uint64_t* ids = nullptr;    // [queries_count, k]
  int32_t* counts = nullptr;  // [queries_count]
};

}  // namespace nearfield
