// Group of blocks of one launch that work on the same row: their barrier and their summed counts. A
// group of one block needs neither.
#pragma once

#include <cstdint>

#include "engine/topk/group_barrier.cuh"
#include "engine/topk/group_state.h"

namespace nearfield::gpu {

// Each of its blocks has another rank, from 0. Requires: if size > 1, all blocks of the grid
// are resident concurrently, so such a launch is cooperative.
//
// Counts are added up in rounds. Round r uses set r % 3. While the blocks add to it, they also
// clear set (r + 1) % 3, which was last read before the barrier of round r - 1. The number of
// rounds stays in the state from one launch to the next, so a launch finds its first set clear.
class BlockGroup {
 public:
  // Creates a group of one block.
  __device__ BlockGroup() : BlockGroup(nullptr, 1) {}
  // Creates the block's group of a launch whose groups all have the same size.
  __device__ BlockGroup(GroupState* states, int size)
      : BlockGroup(states, static_cast<int>(blockIdx.x) / size, static_cast<int>(blockIdx.x) % size,
                   size) {}
  __device__ BlockGroup(GroupState* states, int index, int rank, int size)
      : size_(size),
        index_(index),
        rank_(rank),
        state_(size > 1 ? states + index_ : nullptr),
        barrier_(static_cast<uint32_t>(size), size > 1 ? &state_->arrived : nullptr,
                 size > 1 ? &state_->left : nullptr) {
    if (size > 1) round_ = __ldcg(&state_->rounds);
  }

  __device__ int size() const { return size_; }
  __device__ int index() const { return index_; }
  __device__ int rank() const { return rank_; }
  __device__ bool leads() const { return rank_ == 0; }

  // Adds the block's bins [0, kBins) and key bits, in shared memory, to those of the group, and
  // replaces them with the sums. All threads of all blocks call it.
  template <int kThreads, uint32_t kBins>
  __device__ void SumBins(uint32_t* bins, uint64_t* any, uint64_t* any_not) {
    static_assert(kBins <= kGroupBins, "the state has room");
    if (size_ == 1) return;
    GroupCounts& mine = state_->counts[round_ % 3];
    GroupCounts& next = state_->counts[(round_ + 1) % 3];
    for (uint32_t bin = threadIdx.x; bin < kBins; bin += kThreads) {
      if (bins[bin] != 0) atomicAdd(&mine.bins[bin], bins[bin]);
    }
    if (threadIdx.x == 0) {
      atomicOr(reinterpret_cast<unsigned long long*>(&mine.any), *any);
      atomicOr(reinterpret_cast<unsigned long long*>(&mine.any_not), *any_not);
    }
    Clear<kThreads>(next);
    Barrier();
    for (uint32_t bin = threadIdx.x; bin < kBins; bin += kThreads) {
      bins[bin] = __ldcg(&mine.bins[bin]);
    }
    if (threadIdx.x == 0) {
      *any = __ldcg(&mine.any);
      *any_not = __ldcg(&mine.any_not);
    }
    ++round_;
    __syncthreads();
  }

  // Appends keys[0, count) of each block to the group's candidates. Returns the number of the
  // group's candidates; more than `capacity` if a block or the group has no room for all of them.
  template <int kThreads>
  __device__ uint32_t GatherKeys(const uint64_t* keys, uint32_t count, uint32_t capacity,
                                 uint64_t* candidates, uint32_t* shared_base) {
    GroupCounts& mine = state_->counts[round_ % 3];
    GroupCounts& next = state_->counts[(round_ + 1) % 3];
    const uint32_t added = min(count, capacity + 1);  // keeps the sum from wrapping
    if (threadIdx.x == 0) *shared_base = count > 0 ? atomicAdd(&mine.candidates, added) : 0;
    __syncthreads();
    const uint32_t base = *shared_base;
    for (uint32_t i = threadIdx.x; i < added && base + i < capacity; i += kThreads) {
      candidates[base + i] = keys[i];
    }
    Clear<kThreads>(next);
    Barrier();
    const uint32_t total = __ldcg(&mine.candidates);
    ++round_;
    return total;
  }

  __device__ void Barrier() { barrier_.Wait(); }

  // Leaves the group. It must be the last call of a block.
  __device__ void Leave() {
    if (size_ == 1) return;
    __syncthreads();
    if (threadIdx.x != 0 || !barrier_.LeavesLast()) return;
    state_->arrived = 0;
    state_->left = 0;
    state_->rounds = round_ % 3;
  }

 private:
  template <int kThreads>
  __device__ void Clear(GroupCounts& counts) {
    for (uint32_t bin = static_cast<uint32_t>(rank_) * kThreads + threadIdx.x; bin < kGroupBins;
         bin += static_cast<uint32_t>(size_) * kThreads) {
      counts.bins[bin] = 0;
    }
    if (rank_ == 0 && threadIdx.x == 0) {
      counts.any = 0;
      counts.any_not = 0;
      counts.candidates = 0;
    }
  }

  const int size_;
  const int index_;
  const int rank_;
  GroupState* const state_;
  GroupBarrier barrier_;
  uint32_t round_ = 0;
};

}  // namespace nearfield::gpu
