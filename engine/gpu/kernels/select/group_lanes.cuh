// A group of warps of a block as a bitonic network sees them (bitonic.cuh), and the barriers of
// parts of a block.
#ifndef NEARFIELD_ENGINE_GPU_KERNELS_SELECT_GROUP_LANES_CUH_
#define NEARFIELD_ENGINE_GPU_KERNELS_SELECT_GROUP_LANES_CUH_

#include <cstdint>

#include "engine/gpu/kernels/select/bitonic.cuh"

namespace nearfield::gpu {

// Waits for kCount threads, whole warps, to come to the barrier of this number; what they wrote to
// shared memory before is then seen by all of them. Number 0 is __syncthreads.
template <int kNumber, int kCount>
__device__ __forceinline__ void NamedBarrier() {
  static_assert(kNumber > 0 && kNumber < 16 && kCount % 32 == 0, "as the hardware has them");
  __syncwarp();  // a warp comes as one, whatever its lanes did before
  asm volatile("bar.sync %0, %1;" ::"n"(kNumber), "n"(kCount) : "memory");
}

// The last kGroupThreads threads of a block of kBlockThreads. Keys go between warps through
// `exchange`, shared memory of kGroupThreads * kRegisters keys, which is free where a step begins
// and again where it ends.
template <int kBlockThreads, int kGroupThreads, int kBarrier>
struct GroupLanes {
  static constexpr int kThreads = kGroupThreads;

  uint64_t* exchange;

  __device__ __forceinline__ int thread() const {
    return static_cast<int>(threadIdx.x) - (kBlockThreads - kGroupThreads);
  }

  template <int kRegisters>
  __device__ __forceinline__ void Step(uint64_t (&keys)[kRegisters], int mask, int flip,
                                       bool keep_greater) const {
    if (mask < 32) {
      WarpLanes().Step(keys, mask, flip, keep_greater);
      return;
    }
#pragma unroll
    for (int r = 0; r < kRegisters; ++r) exchange[r * kThreads + thread()] = keys[r];
    NamedBarrier<kBarrier, kThreads>();
#pragma unroll
    for (int r = 0; r < kRegisters; ++r) {
      const uint64_t other = exchange[(r ^ flip) * kThreads + (thread() ^ mask)];
      keys[r] = KeepOf(keys[r], other, keep_greater);
    }
    NamedBarrier<kBarrier, kThreads>();
  }
};

}  // namespace nearfield::gpu

#endif  // NEARFIELD_ENGINE_GPU_KERNELS_SELECT_GROUP_LANES_CUH_
