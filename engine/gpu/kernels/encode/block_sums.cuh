// Sums and maxima over a block, in fp64. Requires: all threads of the block call each function.
// Each contains a barrier: every thread sees what was written to shared memory before the call.
#pragma once

#include <cstdint>

#include "engine/cuda/warp.h"

namespace nearfield::gpu {

struct BlockSumsShared {
  double of_warp[2][32];
};

// kThreads: a multiple of 32, at most 1,024.
template <int kThreads>
class BlockSums {
 public:
  __device__ explicit BlockSums(BlockSumsShared& shared) : shared_(shared) {}

  __device__ double Sum(double value) {
    return Join(value, 0.0, [](double a, double b) { return a + b; });
  }
  // Requires: no value is negative.
  __device__ double Max(double value) {
    return Join(value, 0.0, [](double a, double b) { return a > b ? a : b; });
  }

 private:
  template <typename Op>
  __device__ double Join(double value, double none, Op op) {
    const int lane = static_cast<int>(threadIdx.x) % kWarp;
    // Two alternating buffers, so that one barrier per call is enough.
    double* const of_warp = shared_.of_warp[turn_];
    turn_ ^= 1;
#pragma unroll
    for (int step = kWarp / 2; step > 0; step /= 2) {
      value = op(value, __shfl_xor_sync(kFullWarp, value, step));
    }
    if (lane == 0) of_warp[threadIdx.x / kWarp] = value;
    __syncthreads();
    value = lane < kThreads / kWarp ? of_warp[lane] : none;
#pragma unroll
    for (int step = kWarp / 2; step > 0; step /= 2) {
      value = op(value, __shfl_xor_sync(kFullWarp, value, step));
    }
    return value;
  }

  BlockSumsShared& shared_;
  int turn_ = 0;
};

}  // namespace nearfield::gpu
