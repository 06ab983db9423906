// Blocks of one launch that work on the same problem, and the barrier they meet at.
#ifndef NEARFIELD_ENGINE_GPU_KERNELS_SELECT_GROUP_BARRIER_CUH_
#define NEARFIELD_ENGINE_GPU_KERNELS_SELECT_GROUP_BARRIER_CUH_

#include <cstdint>

#include "engine/gpu/kernels/select/select.h"

namespace nearfield::gpu {

// Group g holds blocks [g * size, (g + 1) * size). All blocks of the grid must be resident at once
// where size > 1.
class Group {
 public:
  __device__ Group(SelectGroup* groups, int size)
      : size_(size),
        index_(static_cast<int>(blockIdx.x) / size),
        rank_(static_cast<int>(blockIdx.x) % size),
        state_(size > 1 ? groups + index_ : nullptr) {}

  __device__ int index() const { return index_; }
  __device__ int rank() const { return rank_; }
  __device__ bool leads() const { return rank_ == 0; }

  // Waits until all threads of all blocks of the group are here; what they wrote before is then
  // seen by all (reads that may find an older line in L1 must go past it: __ldcg).
  __device__ void Barrier() {
    if (size_ == 1) {
      __syncthreads();
      return;
    }
    __syncthreads();
    target_ += static_cast<uint32_t>(size_);
    if (threadIdx.x == 0) {
      __threadfence();
      atomicAdd(&state_->arrived, 1u);
      while (Acquire(&state_->arrived) < target_) {
      }
      __threadfence();
    }
    __syncthreads();
  }

  // The last thing a block does: the last of the group leaves the state as it was found, zero.
  __device__ void Leave() {
    if (size_ == 1) return;
    __syncthreads();
    if (threadIdx.x == 0) {
      __threadfence();
      if (atomicAdd(&state_->left, 1u) + 1 == static_cast<uint32_t>(size_)) {
        state_->arrived = 0;
        state_->left = 0;
      }
    }
  }

 private:
  __device__ static uint32_t Acquire(const uint32_t* address) {
    uint32_t value;
    asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(value) : "l"(address) : "memory");
    return value;
  }

  const int size_;
  const int index_;
  const int rank_;
  SelectGroup* const state_;
  uint32_t target_ = 0;
};

}  // namespace nearfield::gpu

#endif  // NEARFIELD_ENGINE_GPU_KERNELS_SELECT_GROUP_BARRIER_CUH_
