// Sums and maxima over a block, in fp64. Requires: all threads of the block call each function.
// Each contains a barrier: every thread sees what was written to shared memory before the call.
#ifndef NEARFIELD_ENGINE_GPU_KERNELS_ENCODE_BLOCK_SUMS_CUH_
#define NEARFIELD_ENGINE_GPU_KERNELS_ENCODE_BLOCK_SUMS_CUH_

#include <cstdint>

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
    constexpr unsigned kAll = 0xffffffffu;
    const int lane = static_cast<int>(threadIdx.x) % 32;
    // Two alternating buffers, so that one barrier per call is enough.
    double* const of_warp = shared_.of_warp[turn_];
    turn_ ^= 1;
#pragma unroll
    for (int step = 16; step > 0; step /= 2) value = op(value, __shfl_xor_sync(kAll, value, step));
    if (lane == 0) of_warp[threadIdx.x / 32] = value;
    __syncthreads();
    value = lane < kThreads / 32 ? of_warp[lane] : none;
#pragma unroll
    for (int step = 16; step > 0; step /= 2) value = op(value, __shfl_xor_sync(kAll, value, step));
    return value;
  }

  BlockSumsShared& shared_;
  int turn_ = 0;
};

}  // namespace nearfield::gpu

#endif  // NEARFIELD_ENGINE_GPU_KERNELS_ENCODE_BLOCK_SUMS_CUH_
