// The threads and the shared memory of a refinement, and rows of equal score at the end of its
// answer.
#pragma once

#include <cstdint>

#include "engine/gpu/kernels/batch/batch.h"
#include "engine/gpu/kernels/primitives/coded_corpus.h"
#include "engine/gpu/kernels/primitives/final_sort.cuh"
#include "engine/gpu/kernels/primitives/row_layout.h"
#include "engine/gpu/kernels/primitives/threshold_bins.cuh"

namespace nearfield::gpu {

// Threads per block. With many queries, blocks have kRefineFew threads, so that two share an SM; if
// their answers are short as well, kRefineFewest, so that five do: more queries then wait for
// memory at the same time.
inline constexpr int kRefineFewest = 128;
inline constexpr int kRefineFew = 256;
inline constexpr int kRefineMany = 512;

// Returns the blocks of an SM that the registers of a block must leave room for.
constexpr int RefineBlocksOfSm(int threads) { return threads == kRefineFewest ? 5 : 512 / threads; }

// kKeys: kBatchFewKeys, kBatchKeys or kBatchKeysOfLargeK.
template <uint32_t kKeys>
struct RefineShared {
  static constexpr uint32_t kListMax = kKeys < 1536 ? kKeys : 1536;  // entries processed together
  ThresholdBins bins;
  uint32_t list[kListMax];  // queue indexes
  uint32_t left[kListMax];  // those of the pruned list
  uint32_t listed;
  uint32_t scored;
  uint32_t kept;
  uint32_t finals;
  uint64_t kth_order;  // of the k-th key
};
template <uint32_t kKeys>
inline constexpr int kRefineBinBits = kKeys < kBatchKeys ? 10 : 11;
template <int kThreads, bool kMerges, uint32_t kKeys>
using RefineFinal = FinalSort<kThreads, static_cast<int>(kKeys), kRefineBinBits<kKeys>, kMerges>;

// Returns the dynamic shared memory of a block.
template <int kThreads, bool kMerges, uint32_t kKeys>
__host__ __device__ inline int64_t RefineSharedBytes(int32_t dimension, int32_t code_bytes) {
  return int64_t{sizeof(RefineFinal<kThreads, kMerges, kKeys>)} +
         int64_t{8} * RowShapeOf(dimension).padded + int64_t{2} * code_bytes;
}

// The keys of the k-th score. All threads of the block call each function.
template <typename Final>
class KthTies {
 public:
  using Shared = RefineShared<Final::kKeys>;

  __device__ KthTies(const CodedCorpus& corpus, uint32_t k, Shared& shared, Final& final)
      : corpus_(corpus), k_(k), shared_(shared), final_(final) {}

  // Returns true if a row of the k-th score may be missing among the first `keys` of `finals`
  // sorted keys: the last key has this score. In one generation the ranks say which of them come
  // first. Sets shared.kth_order then.
  __device__ bool Misses(const uint64_t* sorted, uint32_t finals, uint32_t keys) {
    if (corpus_.count == 1 || finals == keys) return false;
    bool misses = false;
    if (threadIdx.x == 0) {
      const auto* const written = static_cast<const volatile uint64_t*>(sorted);
      shared_.kth_order = written[k_ - 1] >> 32;
      misses = shared_.kth_order == written[keys - 1] >> 32;
    }
    return __syncthreads_or(static_cast<int>(misses)) != 0;
  }

  // Drops the keys that cannot be in the answer from final.keys: those below the k-th score, and
  // those of this score that k such rows of the same generation precede. Returns how many remain.
  __device__ uint32_t KeepFirst(uint32_t finals) {
    constexpr int kMine = static_cast<int>(Final::kKeys) / Final::kThreads;
    const uint64_t kth_order = shared_.kth_order;
    uint64_t kept[kMine];
#pragma unroll
    for (int i = 0; i < kMine; ++i) {
      const uint32_t at = threadIdx.x + static_cast<uint32_t>(i) * Final::kThreads;
      const uint64_t key = at < finals ? final_.keys[at] : 0;
      kept[i] = key >> 32 >= kth_order && Before(key, finals, kth_order) < k_ ? key : 0;
    }
    __syncthreads();  // all threads have read before any writes
    if (threadIdx.x == 0) shared_.finals = 0;
    __syncthreads();
#pragma unroll
    for (int i = 0; i < kMine; ++i) {
      if (kept[i] != 0) final_.keys[atomicAdd(&shared_.finals, 1u)] = kept[i];
    }
    __syncthreads();
    return shared_.finals;
  }

 private:
  // Returns how many of the keys have the k-th score and the generation of `key` and precede it: 0
  // if `key` has another score. Stops counting at k.
  __device__ uint32_t Before(uint64_t key, uint32_t finals, uint64_t kth_order) const {
    if (key >> 32 != kth_order) return 0;
    // A key holds ~(rows_begin + rank), so the rows that precede are those in [rows_begin, mine).
    const uint32_t mine = ~static_cast<uint32_t>(key);
    const uint32_t rows_begin = corpus_.Of(mine).rows_begin;
    uint32_t before = 0;
#pragma unroll 1
    for (uint32_t i = 0; i < finals && before < k_; ++i) {
      const uint64_t other = final_.keys[i];
      const uint32_t row = ~static_cast<uint32_t>(other);
      if (other >> 32 == kth_order && rows_begin <= row && row < mine) ++before;
    }
    return before;
  }

  const CodedCorpus& corpus_;
  const uint32_t k_;
  Shared& shared_;
  Final& final_;
};

}  // namespace nearfield::gpu
