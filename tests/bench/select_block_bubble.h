// The first selection that this service used, over a row of scores: a baseline of the selection
// benchmark. One thread per block inserts by bubbling, one thread merges.
#ifndef NEARFIELD_TESTS_BENCH_SELECT_BLOCK_BUBBLE_H_
#define NEARFIELD_TESTS_BENCH_SELECT_BLOCK_BUBBLE_H_

#include <cuda_runtime_api.h>

#include <cstdint>

#include "absl/status/status.h"
#include "nearfield/engine/select.h"

namespace nearfield::bench {

// Returns true for one row of fp32 and at most tens of milliseconds of work.
bool BlockBubbleSupports(const select::Shape& shape);

int64_t BlockBubbleWorkspaceBytes(const select::Shape& shape);

// Like Selector::Run, for a shape that BlockBubbleSupports accepts. The workspace may hold
// anything.
absl::Status BlockBubbleSelect(const select::Shape& shape, const select::Buffers& buffers,
                               cudaStream_t stream);

}  // namespace nearfield::bench

#endif  // NEARFIELD_TESTS_BENCH_SELECT_BLOCK_BUBBLE_H_
