// Finds a threshold that a given number of keys reach: a most-significant-digit search over counts.
//
// Each step counts the keys that begin with the current prefix by their next bits, as many bits as
// there are bins for. It then appends the bits of the wanted-th largest key. The search ends when
// few enough keys reach the prefix; keys are unique, so at the latest after all 64 bits. If all
// keys of a step share more bits than the prefix, these are appended together: equal and nearly
// equal scores do not cost a step each.
// Source: radix selection as in Zhang, Naruse, Li, Wang, "Parallel Top-K Algorithms on GPU: A
// Comprehensive Study and New Methods", SC 2023. Differs: 64-bit unique keys, so ties need no
// special case; the search stops early and runs over a sample first; shared bits are skipped.
#pragma once

#include <cstdint>

#include "engine/cuda/warp_primitives.cuh"
#include "engine/topk/block_group.cuh"
#include "engine/topk/block_reduce.cuh"
#include "engine/topk/sample_target.h"

namespace nearfield::gpu {

// State that the threads of a block share during a search, in addition to the bins.
struct SearchShared {
  uint64_t any;      // OR of the counted keys
  uint64_t any_not;  // OR of their complements
  uint32_t digit;    // digit of the wanted-th largest key
  uint32_t above;    // keys with a greater digit
  uint32_t equal;    // keys with this digit
  uint32_t total;    // keys counted
};

// A prefix: the high 64 - low_bits bits of `bits`; the others are zero.
struct KeyPrefix {
  uint64_t bits = 0;
  int low_bits = 64;

  __device__ bool holds(uint64_t key) const {
    return low_bits == 64 || ((key ^ bits) >> low_bits) == 0;
  }
};

// Shared: a SortShared whose bins are free. Population: ForEach(visit) calls visit(key) for its
// share of the keys, with kNoSelectKey for none, always with all lanes of a warp together.
template <int kThreads, typename Shared>
class ThresholdSearch {
 public:
  // Returns the largest threshold found that at least min(wanted, keys present) keys reach, and at
  // most `accepted` if accepted >= wanted. Never kNoSelectKey. The same in all threads of the
  // group.
  template <typename Population>
  __device__ static uint64_t Find(const Population& population, SampleTarget target,
                                  BlockGroup& group, Shared& shared) {
    KeyPrefix prefix;
    uint32_t above = 0;  // keys greater than all with the prefix
    for (;;) {
      const int digit_bits = min(Shared::kBinBits, prefix.low_bits);
      const int shift = prefix.low_bits - digit_bits;
      Count(population, prefix, shift, shared);
      group.template SumBins<kThreads, Shared::kBins>(shared.bins(), &shared.search.any,
                                                      &shared.search.any_not);
      ChooseDigit(shared, target.wanted - above);
      const SearchShared found = shared.search;
      __syncthreads();  // all threads have read it before the next step clears it
      if (found.total == 0 ||
          (above == 0 && prefix.low_bits == 64 && found.total <= target.wanted)) {
        return 1;
      }
      const bool all_equal = found.equal == found.total;
      above += found.above;
      prefix.bits |= static_cast<uint64_t>(found.digit) << shift;
      prefix.low_bits = shift;
      if (above + found.equal <= target.accepted || shift == 0) break;
      if (all_equal) SkipSharedBits(found, prefix);
      if (prefix.low_bits == 0) break;
    }
    return prefix.bits != 0 ? prefix.bits : 1;
  }

 private:
  template <typename Population>
  __device__ static void Count(const Population& population, const KeyPrefix& prefix, int shift,
                               Shared& shared) {
    for (uint32_t bin = threadIdx.x; bin < Shared::kBins; bin += kThreads) shared.bins()[bin] = 0;
    if (threadIdx.x == 0) shared.search = SearchShared{};
    __syncthreads();
    uint64_t any = 0;
    uint64_t any_not = 0;
    const uint32_t lane = threadIdx.x % kWarp;
    population.ForEach([&](uint64_t key) {
      const bool counts = key != kNoSelectKey && prefix.holds(key);
      const uint32_t counting = __ballot_sync(kFullWarp, counts);
      if (counting == 0) return;
      const uint32_t digit = static_cast<uint32_t>(key >> shift) & (Shared::kBins - 1);
      const int first = __ffs(static_cast<int>(counting)) - 1;
      const bool same = digit == __shfl_sync(kFullWarp, digit, first);
      if (__all_sync(kFullWarp, !counts || same)) {
        if (lane == static_cast<uint32_t>(first)) {
          atomicAdd(&shared.bins()[digit], static_cast<uint32_t>(__popc(counting)));
        }
      } else if (counts) {
        atomicAdd(&shared.bins()[digit], 1u);
      }
      if (counts) {
        any |= key;
        any_not |= ~key;
      }
    });
    OrIntoShared(any, &shared.search.any);
    OrIntoShared(any_not, &shared.search.any_not);
    __syncthreads();
  }

  __device__ static void OrIntoShared(uint64_t bits, uint64_t* shared_bits) {
    const uint32_t high = WarpOr(static_cast<uint32_t>(bits >> 32));
    const uint32_t low = WarpOr(static_cast<uint32_t>(bits));
    if (threadIdx.x % kWarp != 0 || (high | low) == 0) return;
    atomicOr(reinterpret_cast<unsigned long long*>(shared_bits),
             (static_cast<unsigned long long>(high) << 32) | low);
  }

  // Finds the digit of the wanted-th largest key counted, or of the smallest if there are fewer.
  __device__ static void ChooseDigit(Shared& shared, uint32_t wanted) {
    constexpr uint32_t kMine = Shared::kBinsOfThread;
    const uint32_t first = Shared::kBins - 1 - threadIdx.x * kMine;  // descending
    uint32_t sum = 0;
#pragma unroll
    for (uint32_t i = 0; i < kMine; ++i) sum += shared.bins()[first - i];
    const uint32_t greater = BlockReduce<kThreads>::PrefixSum(sum, shared.reduce);
    if (threadIdx.x == kThreads - 1) shared.search.total = greater + sum;
    __syncthreads();
    const uint32_t needed = min(wanted, shared.search.total);
    FindKthBin(
        greater, sum, needed, [&](uint32_t i) { return shared.bins()[first - i]; },
        [&](uint32_t i, uint32_t above, uint32_t equal) {
          shared.search.digit = first - i;
          shared.search.above = above;
          shared.search.equal = equal;
        });
    __syncthreads();
  }

  // All keys of the prefix share the bits that are not set in both `any` and `any_not`.
  __device__ static void SkipSharedBits(const SearchShared& found, KeyPrefix& prefix) {
    const uint64_t differing = found.any & found.any_not;
    const int low_bits = 64 - __clzll(static_cast<int64_t>(differing));
    if (low_bits >= prefix.low_bits) return;
    prefix.low_bits = low_bits;
    prefix.bits = low_bits == 64 ? 0 : found.any >> low_bits << low_bits;
  }
};

}  // namespace nearfield::gpu
