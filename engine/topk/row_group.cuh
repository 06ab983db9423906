// Group of blocks of one launch that select from the same row by digits: their barrier, their
// common bins, and the last of them to leave.
#pragma once

#include <cstdint>

#include "engine/topk/digit_select.h"
#include "engine/topk/group_barrier.cuh"

namespace nearfield::gpu {

// Group g holds blocks [g * size, (g + 1) * size). A group of one block touches no state.
class RowGroup {
 public:
  // size: args.blocks_per_row, or 1.
  __device__ RowGroup(const DigitSelectArgs& args, uint32_t size)
      : size_(size),
        rank_(size > 1 ? blockIdx.x % size : 0),
        digit_bits_(args.digit_bits),
        state_(size > 1 ? args.groups + blockIdx.x / size : nullptr),
        barrier_(size, size > 1 ? &state_->arrived : nullptr, size > 1 ? &state_->left : nullptr),
        bins_(size > 1 ? args.bins + (uint64_t{blockIdx.x / size} *
                                          static_cast<uint32_t>(DigitPassesMax(args.digit_bits))
                                      << args.digit_bits)
                       : nullptr) {}

  __device__ uint32_t size() const { return size_; }
  __device__ uint32_t rank() const { return rank_; }

  // Returns the sums of bins 4 * quad to 4 * quad + 3 over all blocks. Every call uses its own
  // bins. All threads of all blocks call it; each thread of a block passes a different quad.
  __device__ uint4 SumBins(uint32_t quad, const uint4& own) {
    if (size_ == 1) return own;
    uint32_t* const bins = bins_ + 4 * quad;
    const bool exists = 4 * quad < 1u << digit_bits_;
    if (own.x != 0) atomicAdd(bins, own.x);
    if (own.y != 0) atomicAdd(bins + 1, own.y);
    if (own.z != 0) atomicAdd(bins + 2, own.z);
    if (own.w != 0) atomicAdd(bins + 3, own.w);
    bins_ += 1u << digit_bits_;
    Barrier();
    return exists ? __ldcg(reinterpret_cast<const uint4*>(bins)) : uint4{};
  }

  // Reserve `count` slots in the group's compacted keys or in its candidates, and return the first.
  // One thread of each block calls them.
  __device__ uint32_t ReserveCompacted(uint32_t count) {
    return size_ == 1 ? 0 : atomicAdd(&state_->compacted, count);
  }
  __device__ uint32_t ReserveCandidates(uint32_t count) {
    return atomicAdd(&state_->collected, count);
  }

  __device__ void Barrier() { barrier_.Wait(); }

  // Leaves a group of several blocks. Returns the number of candidates in the last block to call
  // it, which sees all of them as after a barrier; 0 in the others. The same in all threads of a
  // block.
  __device__ uint32_t CandidatesIfLast(uint32_t* shared_count) {
    __syncthreads();
    if (threadIdx.x == 0) {
      const bool last = barrier_.LeavesLast();
      __threadfence();
      *shared_count = last ? __ldcg(&state_->collected) : 0;
    }
    __syncthreads();
    return *shared_count;
  }

 private:
  const uint32_t size_;
  const uint32_t rank_;
  const int digit_bits_;
  RowGroupState* const state_;
  GroupBarrier barrier_;
  uint32_t* bins_;  // of the current pass
};

}  // namespace nearfield::gpu
