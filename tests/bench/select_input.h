// Makes the scores of the selection benchmark, on the device.
#ifndef NEARFIELD_TESTS_BENCH_SELECT_INPUT_H_
#define NEARFIELD_TESTS_BENCH_SELECT_INPUT_H_

#include <cuda_runtime_api.h>

#include <cstdint>

#include "absl/status/status.h"
#include "tests/bench/timed_case.h"

namespace nearfield::bench {

// Fills scores[batch, n] of the shape's type, with contiguous rows; ignores k. The same seed gives
// the same bits. Asynchronous.
absl::Status FillScores(const TimedCase& one, uint64_t seed, void* scores, cudaStream_t stream);

}  // namespace nearfield::bench

#endif  // NEARFIELD_TESTS_BENCH_SELECT_INPUT_H_
