// The barrier of the blocks of one launch that work together.
#ifndef NEARFIELD_ENGINE_GPU_KERNELS_SELECT_GROUP_BARRIER_CUH_
#define NEARFIELD_ENGINE_GPU_KERNELS_SELECT_GROUP_BARRIER_CUH_

#include <cstdint>

namespace nearfield::gpu {

// All blocks of the grid must be resident at once where size > 1: such a launch is cooperative. The
// counters are those of the group, zero when the launch begins; a group of one block has none.
class GroupBarrier {
 public:
  __device__ GroupBarrier(uint32_t size, uint32_t* arrived, uint32_t* left)
      : size_(size), arrived_(arrived), left_(left) {}

  // Waits until all threads of all blocks of the group are here; what they wrote before is then
  // seen by all (reads that may find an older line in L1 must go past it: __ldcg).
  __device__ void Wait() {
    __syncthreads();
    if (size_ == 1) return;
    target_ += size_;
    if (threadIdx.x == 0) {
      __threadfence();
      atomicAdd(arrived_, 1u);
      while (Acquire(arrived_) < target_) {
      }
      __threadfence();
    }
    __syncthreads();
  }

  // Called once, by one thread of each block of several, behind a barrier of its block: whether it
  // is the last of the group. That one waits no more, so it may clear the counters; and behind a
  // fence it sees what all threads of the others wrote before.
  __device__ bool LeavesLast() {
    __threadfence();
    return atomicAdd(left_, 1u) + 1 == size_;
  }

 private:
  __device__ static uint32_t Acquire(const uint32_t* address) {
    uint32_t value;
    asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(value) : "l"(address) : "memory");
    return value;
  }

  const uint32_t size_;
  uint32_t* const arrived_;
  uint32_t* const left_;
  uint32_t target_ = 0;
};

}  // namespace nearfield::gpu

#endif  // NEARFIELD_ENGINE_GPU_KERNELS_SELECT_GROUP_BARRIER_CUH_
