// Barrier of the blocks of one launch that work together.
#pragma once

#include <cstdint>

namespace nearfield::gpu {

// Requires: if size > 1, all blocks of the grid are resident concurrently, so such a launch is
// cooperative. The counters belong to the group and are zero when the launch begins; a group of one
// block has none.
class GroupBarrier {
 public:
  __device__ GroupBarrier(uint32_t size, uint32_t* arrived, uint32_t* left)
      : size_(size), arrived_(arrived), left_(left) {}

  // Blocks until all threads of all blocks of the group have arrived. Every thread then sees what
  // they wrote before. Reads that may find an older line in L1 must bypass L1 (__ldcg).
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

  // Returns true if the calling block is the last of the group. One thread of each block calls it
  // once, after a barrier of its block, in a group of several blocks. The last block waits no more,
  // so it may clear the counters. After a fence it sees all earlier writes of the other blocks.
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
