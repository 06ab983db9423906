// Sorts a few thousand unique 64-bit keys in shared memory, greatest first.
//
// A monotone map spreads the keys over more buckets than there are keys; a counting sort brings
// them to their buckets, and inside a bucket every key counts those above it. That is a constant
// number of steps a key where the buckets stay small. Two maps are tried: linear in the score,
// which spreads scores of one magnitude, and linear in the key, which spreads scores of many
// magnitudes and equal scores by their index. Where both leave a bucket too full, a merge sort does
// it.
#ifndef NEARFIELD_ENGINE_GPU_KERNELS_SELECT_BUCKET_SORT_CUH_
#define NEARFIELD_ENGINE_GPU_KERNELS_SELECT_BUCKET_SORT_CUH_

#include <cub/block/block_merge_sort.cuh>
#include <cub/block/block_scan.cuh>

#include <cstdint>

#include "engine/gpu/kernels/select/score_types.cuh"

namespace nearfield::gpu {

inline constexpr uint32_t kFullWarp = 0xffffffffu;
inline constexpr int kSelectBinBits = 12;
inline constexpr uint32_t kSelectBins = 1u << kSelectBinBits;
// Keys in a bucket above which counting inside it would cost more than a merge sort.
inline constexpr uint32_t kBucketKeysMax = 64;
// Up to so many keys each is compared with all the others.
inline constexpr uint32_t kRankAllMax = 128;

template <int kThreads, int kCapacity>
struct SortShared {
  static_assert(kCapacity % kThreads == 0, "whole keys a thread");
  using Merge = cub::BlockMergeSort<uint64_t, kThreads, kCapacity / kThreads>;
  using Scan = cub::BlockScan<uint32_t, kThreads, cub::BLOCK_SCAN_WARP_SCANS>;

  uint64_t keys[kCapacity];
  union {
    uint64_t sorted[kCapacity];
    typename Merge::TempStorage merge;
  };
  alignas(16) uint32_t bins[kSelectBins];
  typename Scan::TempStorage scan;
  uint64_t least[32];  // of each warp
  uint64_t greatest[32];
  uint32_t fullest;  // bucket
};

struct GreaterKey {
  __device__ bool operator()(uint64_t a, uint64_t b) const { return a > b; }
};

// Greatest keys first: bucket 0 holds them.
struct BucketMap {
  bool linear_in_score = false;
  float low = 0;
  float scale = 0;
  uint64_t base = 0;
  int shift = 0;
  uint32_t last = 0;  // buckets - 1

  __device__ uint32_t operator()(uint64_t key) const {
    if (linear_in_score) {
      const float place = (ScoreOf(KeyOrder(key)) - low) * scale;
      return last - static_cast<uint32_t>(fminf(place, static_cast<float>(last)));
    }
    return last - static_cast<uint32_t>((key - base) >> shift);
  }
};

__device__ inline BucketMap MapByKey(uint64_t least, uint64_t greatest, int bucket_bits) {
  const int range_bits = 64 - __clzll(static_cast<int64_t>(greatest - least));
  BucketMap map;
  map.base = least;
  map.shift = range_bits > bucket_bits ? range_bits - bucket_bits : 0;
  map.last = (1u << bucket_bits) - 1;
  return map;
}

// linear_in_score stays false where the scores do not allow it: NaN, infinite, equal or too close.
__device__ inline BucketMap MapByScore(uint64_t least, uint64_t greatest, int bucket_bits) {
  BucketMap map;
  map.low = ScoreOf(KeyOrder(least));
  map.last = (1u << bucket_bits) - 1;
  const float range = ScoreOf(KeyOrder(greatest)) - map.low;
  map.scale = static_cast<float>(map.last) / range;
  map.linear_in_score = isfinite(range) && range > 0 && isfinite(map.scale);
  return map;
}

// The sort of one block. All threads call every function.
template <int kThreads, int kCapacity>
class BucketSort {
 public:
  using Shared = SortShared<kThreads, kCapacity>;

  // Sorts shared.keys[0, count) in descending order; count <= kCapacity. The keys are visible to
  // all threads before, and after.
  __device__ static void Sort(Shared& shared, uint32_t count) {
    if (count <= 1) return;
    if (count <= kRankAllMax) {
      RankAll(shared, count);
      return;
    }
    uint64_t least = 0;
    uint64_t greatest = 0;
    FindExtremes(shared, count, &least, &greatest);
    const int bucket_bits = count <= 512 ? 10 : count <= 1024 ? 11 : kSelectBinBits;
    const BucketMap by_score = MapByScore(least, greatest, bucket_bits);
    if (by_score.linear_in_score && TryBuckets(shared, count, by_score)) return;
    if (TryBuckets(shared, count, MapByKey(least, greatest, bucket_bits))) return;
    MergeSort(shared, count);
  }

 private:
  // kThreads / kRankAllMax neighbouring lanes share the comparisons of one key.
  __device__ static void RankAll(Shared& shared, uint32_t count) {
    constexpr uint32_t kLanes = kThreads / kRankAllMax;
    static_assert(kLanes >= 1 && kLanes <= 32 && kThreads % kRankAllMax == 0, "lanes of one warp");
    const uint32_t place = threadIdx.x / kLanes;
    const uint64_t key = place < count ? shared.keys[place] : kNoSelectKey;
    uint32_t above = 0;
    for (uint32_t other = threadIdx.x % kLanes; other < count; other += kLanes) {
      above += shared.keys[other] > key ? 1 : 0;
    }
#pragma unroll
    for (uint32_t step = 1; step < kLanes; step *= 2) {
      above += __shfl_xor_sync(kFullWarp, above, static_cast<int>(step));
    }
    __syncthreads();
    if (place < count && threadIdx.x % kLanes == 0) shared.keys[above] = key;
    __syncthreads();
  }

  __device__ static void FindExtremes(Shared& shared, uint32_t count, uint64_t* least,
                                      uint64_t* greatest) {
    uint64_t low = ~uint64_t{0};
    uint64_t high = 0;
    for (uint32_t i = threadIdx.x; i < count; i += kThreads) {
      low = min(low, shared.keys[i]);
      high = max(high, shared.keys[i]);
    }
    WarpExtremes(&low, &high);
    const uint32_t warp = threadIdx.x / 32;
    const uint32_t lane = threadIdx.x % 32;
    if (lane == 0) {
      shared.least[warp] = low;
      shared.greatest[warp] = high;
    }
    __syncthreads();
    constexpr uint32_t kWarps = kThreads / 32;
    low = shared.least[lane % kWarps];
    high = shared.greatest[lane % kWarps];
    WarpExtremes(&low, &high);
    *least = low;
    *greatest = high;
  }

  __device__ static void WarpExtremes(uint64_t* low, uint64_t* high) {
#pragma unroll
    for (int step = 16; step > 0; step /= 2) {
      *low = min(*low, __shfl_xor_sync(kFullWarp, *low, step));
      *high = max(*high, __shfl_xor_sync(kFullWarp, *high, step));
    }
  }

  // False, with the keys as they were, where a bucket is too full.
  __device__ static bool TryBuckets(Shared& shared, uint32_t count, const BucketMap& map) {
    for (uint32_t bin = threadIdx.x; bin <= map.last; bin += kThreads) shared.bins[bin] = 0;
    if (threadIdx.x == 0) shared.fullest = 0;
    __syncthreads();
    for (uint32_t i = threadIdx.x; i < count; i += kThreads) {
      atomicAdd(&shared.bins[map(shared.keys[i])], 1u);
    }
    __syncthreads();
    StartsOfBuckets(shared, map.last + 1);
    if (shared.fullest > kBucketKeysMax) {
      __syncthreads();  // all have read it before the next attempt clears it
      return false;
    }
    for (uint32_t i = threadIdx.x; i < count; i += kThreads) {
      const uint64_t key = shared.keys[i];
      shared.sorted[atomicAdd(&shared.bins[map(key)], 1u)] = key;
    }
    __syncthreads();
    // A bucket's bin has moved on to its end, so its begin is the end of the one before.
    for (uint32_t i = threadIdx.x; i < count; i += kThreads) {
      const uint64_t key = shared.sorted[i];
      const uint32_t bucket = map(key);
      const uint32_t begin = bucket == 0 ? 0 : shared.bins[bucket - 1];
      const uint32_t end = shared.bins[bucket];
      uint32_t rank = begin;
      for (uint32_t other = begin; other < end; ++other) rank += shared.sorted[other] > key ? 1 : 0;
      shared.keys[rank] = key;
    }
    __syncthreads();
    return true;
  }

  // Turns counts into begins, and finds the fullest bucket.
  __device__ static void StartsOfBuckets(Shared& shared, uint32_t buckets) {
    const uint32_t mine = buckets / kThreads;  // 1 to 8: buckets and threads are powers of two
    const uint32_t first = threadIdx.x * mine;
    uint32_t sum = 0;
    uint32_t fullest = 0;
    for (uint32_t i = 0; i < mine; ++i) {
      const uint32_t keys = shared.bins[first + i];
      sum += keys;
      fullest = max(fullest, keys);
    }
    fullest = __reduce_max_sync(kFullWarp, fullest);
    if (threadIdx.x % 32 == 0) atomicMax(&shared.fullest, fullest);
    uint32_t begin = 0;
    typename Shared::Scan(shared.scan).ExclusiveSum(sum, begin);
    for (uint32_t i = 0; i < mine; ++i) {
      const uint32_t keys = shared.bins[first + i];
      shared.bins[first + i] = begin;
      begin += keys;
    }
    __syncthreads();
  }

  // Out of line: it is the rare way, and its registers would be taken from the usual one.
  __device__ __noinline__ static void MergeSort(Shared& shared, uint32_t count) {
    constexpr int kItems = kCapacity / kThreads;
    uint64_t mine[kItems];
    const uint32_t first = threadIdx.x * kItems;
#pragma unroll
    for (int i = 0; i < kItems; ++i) {
      mine[i] = first + i < count ? shared.keys[first + i] : kNoSelectKey;
    }
    __syncthreads();
    typename Shared::Merge(shared.merge).Sort(mine, GreaterKey());
    __syncthreads();
#pragma unroll
    for (int i = 0; i < kItems; ++i) shared.keys[first + i] = mine[i];
    __syncthreads();
  }
};

}  // namespace nearfield::gpu

#endif  // NEARFIELD_ENGINE_GPU_KERNELS_SELECT_BUCKET_SORT_CUH_
