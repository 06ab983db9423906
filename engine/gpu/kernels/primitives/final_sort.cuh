// The last step of a certified search: sorts the keys of the rows that reach the threshold.
#pragma once

#include <cstdint>

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

// Shared memory of the block that sorts.
template <int kThreadsOf, int kKeysMax, int kBinBitsOf>
struct FinalSort : SortShared<kThreadsOf, kKeysMax, kBinBitsOf, FinalSpace<kKeysMax, kBinBitsOf>> {
  // Writes the min(k, count) largest of keys[0, count) to `to` in descending order. Requires: all
  // threads of the block call.
  __device__ void Sort(uint32_t count, uint32_t k, uint64_t* to) {
    BucketSort<KeySource, FinalSort>::Sort(*this, count, k, {}, KeyResults{to});
  }
};

}  // namespace nearfield::gpu
