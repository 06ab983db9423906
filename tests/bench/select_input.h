// Makes the scores of the selection benchmark, on the device.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "absl/status/status.h"
#include "tests/bench/timed_case.h"

namespace nearfield::bench {

// Fills scores[batch, n] of the shape's type, with contiguous rows; ignores k. The same seed gives
// the same bits. Asynchronous.
absl::Status FillScores(const TimedCase& one, uint64_t seed, void* scores, cudaStream_t stream);

}  // namespace nearfield::bench
