// Puts the k best of a few thousand keys in order, greatest first.
//
// A monotone map spreads the keys over about as many buckets; a counting sort brings those that may
// be among the k best to their buckets, in shared memory, and inside a bucket every key counts those
// above it. That is a constant number of steps a key where the buckets stay small. Two maps are
// tried: by the score and by the bits of the key. Where both leave a bucket too full, a merge sort
// does it.
#ifndef NEARFIELD_ENGINE_GPU_KERNELS_SELECT_BUCKET_SORT_CUH_
#define NEARFIELD_ENGINE_GPU_KERNELS_SELECT_BUCKET_SORT_CUH_

#include <cub/block/block_merge_sort.cuh>

#include <cstdint>

#include "engine/gpu/kernels/select/block_reduce.cuh"
#include "engine/gpu/kernels/select/bucket_map.cuh"
#include "engine/gpu/kernels/select/score_types.cuh"

namespace nearfield::gpu {

// Keys in a bucket above which counting inside it would cost more than a merge sort.
inline constexpr uint32_t kBucketKeysMax = 64;
// Up to so many keys each is compared with all the others.
inline constexpr uint32_t kRankAllMax = 128;

// The shared memory of a block that sorts up to kKeys keys.
template <int kThreadsOf, int kKeysOf, int kBinBitsOf>
struct SortShared {
  static constexpr int kThreads = kThreadsOf;
  static constexpr uint32_t kKeys = kKeysOf;
  static constexpr int kBinBits = kBinBitsOf;
  static constexpr uint32_t kBins = 1u << kBinBits;
  static constexpr uint32_t kBinsOfThread = kBins / kThreads;
  static_assert(kKeys % kThreads == 0 && kBinsOfThread % 4 == 0, "whole keys, and vectors of bins");
  using Merge = cub::BlockMergeSort<uint64_t, kThreads, kKeys / kThreads>;

  union {
    uint64_t keys[kKeys];
    typename Merge::TempStorage merge;
  };
  alignas(16) uint32_t bins[kBins];
  BlockReduceShared reduce;
  uint32_t fullest;  // of the buckets that the k best reach into
  uint32_t cut;      // the last of these
};

struct GreaterKey {
  __device__ bool operator()(uint64_t a, uint64_t b) const { return a > b; }
};

// Entries (of a source) that a block holds in registers: thread t has those at t, t + kThreads, ...
// of the first `count` in shared memory.
template <typename Source, int kThreads, int kItemsOf>
class HeldEntries {
 public:
  static constexpr int kItems = kItemsOf;

  __device__ HeldEntries(const uint64_t* entries, uint32_t count) : count_(count) {
#pragma unroll
    for (int j = 0; j < kItems; ++j) {
      if (!has(j)) break;
      entries_[j] = entries[threadIdx.x + j * kThreads];
    }
  }
  __device__ uint32_t count() const { return count_; }
  __device__ bool has(int j) const {
    return threadIdx.x + static_cast<uint32_t>(j) * kThreads < count_;
  }
  __device__ uint64_t key(int j) const { return Source::KeyOfEntry(entries_[j]); }
  __device__ float score(int j) const { return Source::ScoreOfEntry(entries_[j]); }

 private:
  const uint32_t count_;
  uint64_t entries_[kItems];
};

// All threads of the block call every function. emit(rank, key) is called once for each of the
// min(k, count) best, neighbouring ranks by neighbouring threads as far as may be.
template <typename Source, typename Shared>
class BucketSort {
 public:
  // The entries lie in shared.keys[0, count), visible to all threads; they are not there afterwards.
  template <typename Emit>
  __device__ static void Sort(Shared& shared, uint32_t count, uint32_t k, KeyBits bits,
                              const Emit& emit) {
    if (count <= kRankAllMax) {
      RankAll(shared, count, k, emit);
      return;
    }
    const HeldEntries<Source, kThreads, kItemsMax> held(shared.keys, count);
    if (TrySort(held, k, bits, shared, emit)) return;
    for (uint32_t i = threadIdx.x; i < count; i += kThreads) {
      shared.keys[i] = Source::KeyOfEntry(shared.keys[i]);
    }
    __syncthreads();
    MergeSort(shared, count, k, emit);
  }

  // The items are in registers; shared.keys has room for k + kBucketKeysMax keys, or for all.
  // False, with shared.keys as they were, where neither map serves.
  template <typename Items, typename Emit>
  __device__ static bool TrySort(const Items& items, uint32_t k, KeyBits bits, Shared& shared,
                                 const Emit& emit) {
    const ScoreSpread spread =
        Reduce::Join(ScoreSpread::Of<Items::kItems>([&](int j) { return items.has(j); },
                                                    [&](int j) { return items.score(j); }),
                     shared.reduce);
    const auto by_score = [&] {
      const ScoreMap map(spread, items.count(), Shared::kBins);
      return map.valid() && TryMap(items, k, map, shared, emit);
    };
    const auto by_key = [&] {
      return TryMap(items, k, KeyMap(spread, bits, Shared::kBinBits), shared, emit);
    };
    // Scores of few bits have many ties, which only the index tells apart.
    return bits.idle_order > 0 ? by_key() || by_score() : by_score() || by_key();
  }

  // Sorts shared.keys[0, count). Out of line: it is the rare way, and its registers would be taken
  // from the usual one.
  template <typename Emit>
  __device__ __noinline__ static void MergeSort(Shared& shared, uint32_t count, uint32_t k,
                                                const Emit& emit) {
    uint64_t mine[kItemsMax];
    const uint32_t first = threadIdx.x * kItemsMax;
#pragma unroll
    for (int i = 0; i < kItemsMax; ++i) {
      mine[i] = first + i < count ? shared.keys[first + i] : kNoSelectKey;
    }
    __syncthreads();
    typename Shared::Merge(shared.merge).Sort(mine, GreaterKey());
    __syncthreads();
#pragma unroll
    for (int i = 0; i < kItemsMax; ++i) shared.keys[first + i] = mine[i];
    __syncthreads();
    for (uint32_t i = threadIdx.x; i < min(count, k); i += kThreads) emit(i, shared.keys[i]);
  }

 private:
  static constexpr int kThreads = Shared::kThreads;
  static constexpr int kItemsMax = Shared::kKeys / kThreads;
  using Reduce = BlockReduce<kThreads>;

  // kThreads / kRankAllMax neighbouring lanes share the comparisons of one key.
  template <typename Emit>
  __device__ static void RankAll(Shared& shared, uint32_t count, uint32_t k, const Emit& emit) {
    constexpr uint32_t kLanes = kThreads / kRankAllMax;
    static_assert(kLanes >= 1 && kLanes <= 32 && kThreads % kRankAllMax == 0, "lanes of one warp");
    if (threadIdx.x < count) {
      shared.keys[threadIdx.x] = Source::KeyOfEntry(shared.keys[threadIdx.x]);
    }
    __syncthreads();
    const uint32_t place = threadIdx.x / kLanes;
    if ((place & ~(32 / kLanes - 1)) >= count) return;  // the whole warp
    const uint64_t key = place < count ? shared.keys[place] : kNoSelectKey;
    uint32_t above = 0;
    for (uint32_t other = threadIdx.x % kLanes; other < count; other += kLanes) {
      above += shared.keys[other] > key ? 1 : 0;
    }
#pragma unroll
    for (uint32_t step = 1; step < kLanes; step *= 2) {
      above += __shfl_xor_sync(kFullWarp, above, static_cast<int>(step));
    }
    if (place < count && above < k && threadIdx.x % kLanes == 0) emit(above, key);
  }

  // False, with shared.keys as they were, where a bucket is too full.
  template <typename Items, typename Map, typename Emit>
  __device__ static bool TryMap(const Items& items, uint32_t k, const Map& map, Shared& shared,
                                const Emit& emit) {
    auto* const clear = reinterpret_cast<uint4*>(shared.bins);
#pragma unroll
    for (uint32_t i = 0; i < Shared::kBinsOfThread / 4; ++i) {
      clear[i * kThreads + threadIdx.x] = uint4{};
    }
    if (threadIdx.x == 0) shared.fullest = 0;
    __syncthreads();
#pragma unroll
    for (int j = 0; j < Items::kItems; ++j) {
      if (!items.has(j)) break;
      atomicAdd(&shared.bins[BucketOf(items, j, map)], 1u);
    }
    __syncthreads();
    const uint32_t wanted = min(k, items.count());
    StartsOfBuckets(shared, wanted);
    const uint32_t cut = shared.cut;
    const bool serves = shared.fullest <= kBucketKeysMax;
    if (!serves) {
      __syncthreads();  // all have read it before the next attempt clears it
      return false;
    }
#pragma unroll
    for (int j = 0; j < Items::kItems; ++j) {
      if (!items.has(j)) break;
      const uint32_t bucket = BucketOf(items, j, map);
      if (bucket <= cut) shared.keys[atomicAdd(&shared.bins[bucket], 1u)] = items.key(j);
    }
    __syncthreads();
    // A bucket's bin has moved on to its end, so its begin is the end of the one before.
    const uint32_t brought = shared.bins[cut];
    for (uint32_t i = threadIdx.x; i < brought; i += kThreads) {
      const uint64_t key = shared.keys[i];
      const uint32_t bucket = map(key);
      const uint32_t end = shared.bins[bucket];
      uint32_t rank = bucket == 0 ? 0 : shared.bins[bucket - 1];
      for (uint32_t other = rank; other < end; ++other) rank += shared.keys[other] > key ? 1 : 0;
      if (rank < wanted) emit(rank, key);
    }
    return true;
  }

  template <typename Items>
  __device__ static uint32_t BucketOf(const Items& items, int j, const ScoreMap& map) {
    return map.OfScore(items.score(j));
  }
  template <typename Items>
  __device__ static uint32_t BucketOf(const Items& items, int j, const KeyMap& map) {
    return map(items.key(j));
  }

  // Turns counts into begins; finds the bucket of the wanted-th key, and the fullest up to it.
  __device__ static void StartsOfBuckets(Shared& shared, uint32_t wanted) {
    constexpr uint32_t kMine = Shared::kBinsOfThread;
    auto* const vectors = reinterpret_cast<uint4*>(&shared.bins[threadIdx.x * kMine]);
    uint32_t counts[kMine];
    uint32_t sum = 0;
#pragma unroll
    for (uint32_t i = 0; i < kMine / 4; ++i) {
      const uint4 four = vectors[i];
      counts[4 * i] = four.x;
      counts[4 * i + 1] = four.y;
      counts[4 * i + 2] = four.z;
      counts[4 * i + 3] = four.w;
      sum += four.x + four.y + four.z + four.w;
    }
    uint32_t begin = Reduce::PrefixSum(sum, shared.reduce);
    if (begin < wanted && sum > 0) {
      uint32_t fullest = 0;
      uint32_t end = begin;
#pragma unroll
      for (uint32_t i = 0; i < kMine; ++i) {
        if (end < wanted) {
          fullest = max(fullest, counts[i]);
          if (end + counts[i] >= wanted) shared.cut = threadIdx.x * kMine + i;
        }
        end += counts[i];
      }
      if (fullest > kBucketKeysMax) atomicMax(&shared.fullest, fullest);
    }
#pragma unroll
    for (uint32_t i = 0; i < kMine / 4; ++i) {
      uint4 four;
      four.x = begin;
      four.y = four.x + counts[4 * i];
      four.z = four.y + counts[4 * i + 1];
      four.w = four.z + counts[4 * i + 2];
      begin = four.w + counts[4 * i + 3];
      vectors[i] = four;
    }
    __syncthreads();
  }
};

}  // namespace nearfield::gpu

#endif  // NEARFIELD_ENGINE_GPU_KERNELS_SELECT_BUCKET_SORT_CUH_
