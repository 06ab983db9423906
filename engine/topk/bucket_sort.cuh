// Bucket sort: puts the k best of a few thousand keys in order, largest first.
//
// A monotone map spreads the keys over about as many buckets. A counting sort in shared memory
// moves the keys that may be among the k best to their buckets. Inside a bucket, each key counts
// the keys above it. This takes a constant number of steps per key while the buckets stay small.
// Maps are tried in turn: by score; if scores have few bits, by the bits of the key; by these from
// both ends. If all of them leave a bucket too full, a merge sort is used.
#pragma once

#include <cub/block/block_merge_sort.cuh>

#include <cstdint>

#include "engine/cuda/warp_primitives.cuh"
#include "engine/topk/block_reduce.cuh"
#include "engine/topk/bucket_map.cuh"
#include "engine/topk/score_types.cuh"

namespace nearfield::gpu {

// Maximum number of keys in a bucket. Above it, counting would cost more than a merge sort.
inline constexpr uint32_t kBucketKeysMax = 64;
// Up to this number of keys, each key is compared with all the others.
inline constexpr uint32_t kRankAllMax = 128;

// Shared memory of a block that sorts up to kKeys keys. Space has bins(): 2^kBinBits of them,
// aligned to 16 bytes. The sort writes to sorted(), which Space or a derived struct has.
template <int kThreadsOf, int kKeysOf, int kBinBitsOf, typename Space>
struct SortShared : Space {
  static constexpr int kThreads = kThreadsOf;
  static constexpr uint32_t kKeys = kKeysOf;
  static constexpr int kBinBits = kBinBitsOf;
  static constexpr uint32_t kBins = 1u << kBinBits;
  static constexpr uint32_t kBinsOfThread = kBins / kThreads;
  static constexpr bool kMerges = false;  // if true, nothing is written to sorted()
  static_assert(kKeys % kThreads == 0 && kBinsOfThread % 4 == 0, "whole keys, and vectors of bins");
  using Merge = cub::BlockMergeSort<uint64_t, kThreads, kKeys / kThreads>;

  union {
    uint64_t keys[kKeys];
    typename Merge::TempStorage merge;
  };
  BlockReduceShared reduce;
  uint32_t fullest;  // keys in the fullest bucket that the k best reach into
  uint32_t cut;      // the last bucket that the k best reach into
};

struct GreaterKey {
  __device__ bool operator()(uint64_t a, uint64_t b) const { return a > b; }
};

// Entries of a source in shared memory. Thread t has those at t, t + kThreads, ... of the first
// `count`.
template <typename Source, int kThreads, int kItemsOf>
class SharedEntries {
 public:
  static constexpr int kItems = kItemsOf;
  struct Origin {
    const uint64_t* entries;
    uint32_t count;
  };

  __device__ explicit SharedEntries(const Origin& origin)
      : mine_(origin.entries + threadIdx.x), count_(origin.count) {}
  __device__ uint32_t count() const { return count_; }
  __device__ bool has(int j) const {
    return threadIdx.x + static_cast<uint32_t>(j) * kThreads < count_;
  }
  __device__ uint64_t entry(int j) const { return mine_[j * kThreads]; }
  __device__ float real(int j) const { return Source::RealOfEntry(entry(j)); }

 private:
  const uint64_t* const mine_;
  const uint32_t count_;
};

// Assigns entries to buckets and compares them there, by score and index.
template <typename Source>
struct EntriesByScore {
  ScoreMap map;

  __device__ uint32_t Bucket(uint64_t entry) const { return map(Source::RealOfEntry(entry)); }
  __device__ static uint64_t Stored(uint64_t entry) { return entry; }
  __device__ uint32_t BucketOfStored(uint64_t stored) const { return Bucket(stored); }
  __device__ static bool Before(uint64_t a, uint64_t b) { return Source::EntryBefore(a, b); }
  template <typename Emit>
  __device__ static void Give(uint32_t rank, uint64_t stored, Emit emit) {
    emit.Entry(rank, stored);
  }
};

// Assigns entries to buckets and compares them there as keys, which order NaNs too.
template <typename Source, typename Map>
struct EntriesByKey {
  Map map;

  __device__ uint32_t Bucket(uint64_t entry) const { return map(Source::KeyOfEntry(entry)); }
  __device__ static uint64_t Stored(uint64_t entry) { return Source::KeyOfEntry(entry); }
  __device__ uint32_t BucketOfStored(uint64_t stored) const { return map(stored); }
  __device__ static bool Before(uint64_t a, uint64_t b) { return a > b; }
  template <typename Emit>
  __device__ static void Give(uint32_t rank, uint64_t stored, Emit emit) {
    emit.Key(rank, stored);
  }
};

// All threads of the block call every function. emit.Entry(rank, entry) or emit.Key(rank, key) is
// called once for each of the min(k, count) best. Neighboring threads emit neighboring ranks as far
// as possible.
template <typename Source, typename Shared>
class BucketSort {
 public:
  // Sorts shared.keys[0, count). All threads see the entries; sorted() does not overlap them.
  template <typename Emit>
  __device__ static void Sort(Shared& shared, uint32_t count, uint32_t k, KeyBits bits, Emit emit) {
    if (count <= kRankAllMax) {
      RankAll(shared, count, k, emit);
      return;
    }
    if constexpr (!Shared::kMerges) {
      using Entries = SharedEntries<Source, kThreads, kItemsMax>;
      if (TrySort<Entries>({shared.keys, count}, k, bits, shared, emit)) return;
    }
    for (uint32_t i = threadIdx.x; i < count; i += kThreads) {
      shared.keys[i] = Source::KeyOfEntry(shared.keys[i]);
    }
    __syncthreads();
    MergeSort(shared, count, k, emit);
  }

  // Sorts the entries of Items(origin). Requires: sorted() has room for k + kBucketKeysMax keys, or
  // for all. Returns false, with sorted() untouched, if no map works.
  template <typename Items, typename Emit>
  __device__ static bool TrySort(typename Items::Origin origin, uint32_t k, KeyBits bits,
                                 Shared& shared, Emit emit) {
    if (TryScores<Items>(origin, k, shared, emit)) return true;
    // Scores of few bits have many ties, which only the index distinguishes.
    if constexpr (Source::kFewBits) {
      if (TryKeys<Items>(origin, k, bits, shared, emit)) return true;
    }
    return TrySplit<Items>(origin, k, bits, shared, emit);
  }

  // Sorts shared.keys[0, count). Not inlined: it is the rare path, and its registers would be lost
  // to the usual one.
  template <typename Emit>
  __device__ __noinline__ static void MergeSort(Shared& shared, uint32_t count, uint32_t k,
                                                Emit emit) {
    __builtin_assume(__isShared(&shared));
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
    for (uint32_t i = threadIdx.x; i < min(count, k); i += kThreads) emit.Key(i, shared.keys[i]);
  }

 private:
  static constexpr int kThreads = Shared::kThreads;
  static constexpr int kItemsMax = Shared::kKeys / kThreads;
  using Reduce = BlockReduce<kThreads>;

  // Ranks each key by counting. kThreads / kRankAllMax neighboring lanes share the comparisons of
  // one key.
  template <typename Emit>
  __device__ static void RankAll(Shared& shared, uint32_t count, uint32_t k, Emit emit) {
    constexpr uint32_t kLanes = kThreads / kRankAllMax;
    static_assert(kLanes >= 1 && kLanes <= kWarp && kThreads % kRankAllMax == 0,
                  "lanes of one warp");
    if (threadIdx.x < count) {
      shared.keys[threadIdx.x] = Source::KeyOfEntry(shared.keys[threadIdx.x]);
    }
    __syncthreads();
    const uint32_t place = threadIdx.x / kLanes;
    if ((place & ~(kWarp / kLanes - 1)) >= count) return;  // uniform in the warp
    const uint64_t key = place < count ? shared.keys[place] : kNoSelectKey;
    const uint32_t above =
        RankByCount<kLanes>(count, [&](uint32_t other) { return shared.keys[other] > key; });
    if (place < count && above < k && threadIdx.x % kLanes == 0) emit.Key(above, key);
  }

  template <typename Items, typename Emit>
  __device__ __forceinline__ static bool TryScores(typename Items::Origin origin, uint32_t k,
                                                   Shared& shared, Emit emit) {
    const Items items(origin);
    const ScoreMap map(SpreadOf(items, shared), items.count(), Shared::kBins);
    return map.valid() && TryMap(items, k, EntriesByScore<Source>{map}, shared, emit);
  }
  // TryKeys and TrySplit are not inlined and build their own items, so that they take no registers
  // from the usual path.
  template <typename Items, typename Emit>
  __device__ __noinline__ static bool TryKeys(typename Items::Origin origin, uint32_t k,
                                              KeyBits bits, Shared& shared, Emit emit) {
    __builtin_assume(__isShared(&shared));
    const Items items(origin);
    __syncthreads();  // all threads have read the result of the previous attempt
    const KeySpread spread = SpreadOfKeys(items, 0, 0xffffffffu, shared);
    const KeyMap map(spread, bits, Shared::kBinBits);
    return TryMap(items, k, EntriesByKey<Source, KeyMap>{map}, shared, emit);
  }
  template <typename Items, typename Emit>
  __device__ __noinline__ static bool TrySplit(typename Items::Origin origin, uint32_t k,
                                               KeyBits bits, Shared& shared, Emit emit) {
    __builtin_assume(__isShared(&shared));
    const Items items(origin);
    __syncthreads();
    const KeySpread all = SpreadOfKeys(items, 0, 0xffffffffu, shared);
    const uint32_t middle = all.least_order + (all.greatest_order - all.least_order) / 2;
    __syncthreads();
    const KeySpread lower = SpreadOfKeys(items, 0, middle, shared);
    __syncthreads();
    const KeySpread upper = SpreadOfKeys(items, middle + 1, 0xffffffffu, shared);
    const SplitMap map(middle, lower, upper, bits, Shared::kBinBits);
    return TryMap(items, k, EntriesByKey<Source, SplitMap>{map}, shared, emit);
  }

  // Returns the spread of the keys with orders in [from, to], both included.
  template <typename Items>
  __device__ static KeySpread SpreadOfKeys(const Items& items, uint32_t from, uint32_t to,
                                           Shared& shared) {
    KeySpread spread{.least_order = 0xffffffffu, .least_low = 0xffffffffu};
#pragma unroll
    for (int j = 0; j < Items::kItems; ++j) {
      if (!items.has(j)) break;
      const uint64_t key = Source::KeyOfEntry(items.entry(j));
      const uint32_t order = KeyOrder(key);
      if (order < from || order > to) continue;
      const auto low = static_cast<uint32_t>(key);
      spread.least_order = min(spread.least_order, order);
      spread.greatest_order = max(spread.greatest_order, order);
      spread.least_low = min(spread.least_low, low);
      spread.greatest_low = max(spread.greatest_low, low);
    }
    Reduce::JoinEnds(&spread.least_order, &spread.greatest_order, shared.reduce);
    __syncthreads();
    Reduce::JoinEnds(&spread.least_low, &spread.greatest_low, shared.reduce);
    return spread;
  }

  template <typename Items>
  __device__ static ScoreSpread SpreadOf(const Items& items, Shared& shared) {
    return Reduce::Join(ScoreSpread::Of<Items::kItems>([&](int j) { return items.has(j); },
                                                       [&](int j) { return items.real(j); }),
                        shared.reduce);
  }

  // Returns false, with nothing sorted, if a bucket is too full.
  template <typename Items, typename Way, typename Emit>
  __device__ static bool TryMap(const Items& items, uint32_t k, const Way& way, Shared& shared,
                                Emit emit) {
    auto* const clear = reinterpret_cast<uint4*>(shared.bins());
#pragma unroll
    for (uint32_t i = 0; i < Shared::kBinsOfThread / 4; ++i) {
      clear[i * kThreads + threadIdx.x] = uint4{};
    }
    if (threadIdx.x == 0) shared.fullest = 0;
    __syncthreads();
#pragma unroll
    for (int j = 0; j < Items::kItems; ++j) {
      if (!items.has(j)) break;
      atomicAdd(&shared.bins()[way.Bucket(items.entry(j))], 1u);
    }
    __syncthreads();
    const uint32_t wanted = min(k, items.count());
    StartsOfBuckets(shared, wanted);
    const uint32_t cut = shared.cut;
    const bool serves = shared.fullest <= kBucketKeysMax;
    if (!serves) {
      __syncthreads();  // all threads have read it before the next attempt clears it
      return false;
    }
    uint64_t* const sorted = shared.sorted();
    const Way again = {way.map.Again()};
#pragma unroll
    for (int j = 0; j < Items::kItems; ++j) {
      if (!items.has(j)) break;
      const uint32_t bucket = again.Bucket(items.entry(j));
      if (bucket > cut) continue;
      sorted[atomicAdd(&shared.bins()[bucket], 1u)] = Way::Stored(items.entry(j));
    }
    __syncthreads();
    // Each bin now holds the end of its bucket, so a bucket begins where the previous one ends.
    // A thread ranks its key alone, unlike RankByCount: a bucket has few keys.
    const uint32_t brought = shared.bins()[cut];
    for (uint32_t i = threadIdx.x; i < brought; i += kThreads) {
      const uint64_t mine = sorted[i];
      const uint32_t bucket = way.BucketOfStored(mine);
      const uint64_t* const end = &sorted[shared.bins()[bucket]];
      uint32_t rank = bucket == 0 ? 0 : shared.bins()[bucket - 1];
#pragma unroll 1
      for (const uint64_t* other = &sorted[rank]; other != end; ++other) {
        rank += Way::Before(*other, mine) ? 1 : 0;
      }
      if (rank < wanted) Way::Give(rank, mine, emit);
    }
    return true;
  }

  // Turns counts into begins. Finds the bucket of the wanted-th key, and the fullest one up to it.
  __device__ static void StartsOfBuckets(Shared& shared, uint32_t wanted) {
    constexpr uint32_t kMine = Shared::kBinsOfThread;
    auto* const vectors = reinterpret_cast<uint4*>(&shared.bins()[threadIdx.x * kMine]);
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
