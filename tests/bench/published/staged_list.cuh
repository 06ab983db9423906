// The best keys that a block has seen, in shared memory: a sorted list, followed by keys that have
// arrived since. When there is no more room, these are sorted into the list. No key is ever dropped
// for lack of room.
#pragma once

#include <cub/block/block_merge_sort.cuh>

#include <cstdint>

#include "engine/topk/score_types.cuh"
#include "engine/topk/warp_primitives.cuh"

namespace nearfield::gpu::published {

// Located in shared memory. All kThreads threads of the block call every method. Methods that
// change the list end with a barrier. kItems is odd: the keys of neighboring threads then fall on
// different banks. Requires: k < kCapacity throughout.
template <int kThreads, int kItems>
class StagedList {
 public:
  static constexpr uint32_t kCapacity = kThreads * kItems;
  static_assert(kItems % 2 == 1, "even counts conflict in the banks");

  // Empties the list; only keys above `threshold` will be accepted. Discards the previous contents
  // of this memory and of scratch(), which all threads must have read before they call this.
  __device__ void Restart(uint64_t threshold) {
    __syncthreads();
    if (threadIdx.x == 0) {
      count_ = 0;
      threshold_ = threshold;
    }
    __syncthreads();
  }

  // Returns memory for kCapacity keys that may be used before Restart.
  __device__ uint64_t* scratch() { return keys_; }

  // Returns the threshold: a key not above it cannot be among the k best. Only Restart and
  // MergeStaged change it.
  __device__ uint64_t threshold() const { return threshold_; }

  // Returns the key of `rank`. Valid after MergeStaged.
  __device__ uint64_t At(uint32_t rank) const { return rank < count_ ? keys_[rank] : kNoSelectKey; }

  // Adds those of the threads' keys that are above the threshold.
  template <int kCount>
  __device__ __forceinline__ void Add(const uint64_t (&keys)[kCount], uint32_t k) {
    static_assert(kCount <= 32, "a bit a key");
    uint32_t pending = 0;
#pragma unroll
    for (int i = 0; i < kCount; ++i) pending |= keys[i] > threshold_ ? 1u << i : 0u;
    // One barrier per call, except in the rare call that fills the memory. MergeStaged always makes
    // room, so every iteration takes a key.
    while (true) {
      Stage(keys, pending);
      if (__syncthreads_or(pending != 0) == 0) return;
      MergeStaged(k);
#pragma unroll
      for (int i = 0; i < kCount; ++i) {
        if (keys[i] <= threshold_) pending &= ~(1u << i);
      }
    }
  }

  // Sorts the staged keys into the list and truncates it to k.
  __device__ __forceinline__ void MergeStaged(uint32_t k) {
    __syncthreads();
    const uint32_t count = min(count_, kCapacity);
    constexpr int kFewItems = (kItems / 3) | 1;
    if (count <= kThreads) {
      Sort<1>(count);
    } else if (count <= kThreads * kFewItems) {
      Sort<kFewItems>(count);
    } else {
      Sort<kItems>(count);
    }
    // All threads have read count_ before the barriers of Sort.
    if (threadIdx.x == 0) {
      count_ = min(count, k);
      if (count >= k) threshold_ = keys_[k - 1];
    }
    __syncthreads();
  }

 private:
  struct Greater {
    __device__ bool operator()(uint64_t a, uint64_t b) const { return a > b; }
  };

  // Writes pending keys to free slots, and clears their bits. count_ may exceed the capacity; a key
  // with a slot beyond it stays pending.
  template <int kCount>
  __device__ __forceinline__ void Stage(const uint64_t (&keys)[kCount], uint32_t& pending) {
    if (!__any_sync(kFullWarp, pending != 0)) return;
    uint32_t at = ReserveSlots(&count_, static_cast<uint32_t>(__popc(pending)));
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      if ((pending >> i & 1u) == 0) continue;
      if (at < kCapacity) {
        keys_[at] = keys[i];
        pending &= ~(1u << i);
      }
      ++at;
    }
  }

  template <int kPerThread>
  __device__ __forceinline__ void Sort(uint32_t count) {
    uint64_t mine[kPerThread];
#pragma unroll
    for (int i = 0; i < kPerThread; ++i) {
      const uint32_t at = threadIdx.x + static_cast<uint32_t>(i) * kThreads;
      mine[i] = at < count ? keys_[at] : kNoSelectKey;
    }
    __syncthreads();
    MergeSort<kPerThread>(*reinterpret_cast<typename MergeSort<kPerThread>::TempStorage*>(&sort_))
        .Sort(mine, Greater());
    __syncthreads();
#pragma unroll
    for (int i = 0; i < kPerThread; ++i) keys_[threadIdx.x * kPerThread + i] = mine[i];
    __syncthreads();
  }

  template <int kPerThread>
  using MergeSort = cub::BlockMergeSort<uint64_t, kThreads, kPerThread>;

  union {
    uint64_t keys_[kCapacity];
    typename MergeSort<kItems>::TempStorage sort_;
  };
  uint64_t threshold_;
  uint32_t count_;
};

}  // namespace nearfield::gpu::published
