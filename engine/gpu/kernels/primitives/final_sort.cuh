// The last step of a certified search: sorts the keys of the rows that reach the threshold.
#pragma once

#include <cstdint>
#include <type_traits>

#include "engine/topk/bucket_sort.cuh"
#include "engine/topk/select_sources.cuh"

namespace nearfield::gpu {

template <int kKeysMax, int kBinBitsOf>
struct FinalSpace {
  alignas(16) uint32_t bins_of_keys[1 << kBinBitsOf];
  uint64_t keys_in_order[kKeysMax];
  __device__ uint32_t* bins() { return bins_of_keys; }
  __device__ uint64_t* sorted() { return keys_in_order; }
};

// Space of a sort by merging, which needs no second copy of the keys.
struct alignas(16) MergingSpace {};

// Shared memory of the block that sorts. kMergesOf: sort by merging, which is slower but takes less
// than half of the memory.
template <int kThreadsOf, int kKeysMax, int kBinBitsOf, bool kMergesOf = false>
struct FinalSort
    : SortShared<kThreadsOf, kKeysMax, kBinBitsOf,
                 std::conditional_t<kMergesOf, MergingSpace, FinalSpace<kKeysMax, kBinBitsOf>>> {
  static constexpr bool kMerges = kMergesOf;

  // Writes the min(k, count) largest of keys[0, count) to `to` in descending order. Requires: all
  // threads of the block call.
  __device__ void Sort(uint32_t count, uint32_t k, uint64_t* to) {
    BucketSort<KeySource, FinalSort>::Sort(*this, count, k, {}, KeyResults{to});
  }
};

}  // namespace nearfield::gpu
