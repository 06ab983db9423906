// The k best of one row, by one block or by a group of blocks: sample, threshold, one pass, sort.
#ifndef NEARFIELD_ENGINE_GPU_KERNELS_SELECT_ROW_SELECTOR_CUH_
#define NEARFIELD_ENGINE_GPU_KERNELS_SELECT_ROW_SELECTOR_CUH_

#include <cstdint>

#include "engine/gpu/kernels/select/block_group.cuh"
#include "engine/gpu/kernels/select/bucket_sort.cuh"
#include "engine/gpu/kernels/select/key_collector.cuh"
#include "engine/gpu/kernels/select/row_populations.cuh"
#include "engine/gpu/kernels/select/sample_target.h"
#include "engine/gpu/kernels/select/threshold_search.cuh"

namespace nearfield::gpu {

template <typename Source, int kThreads, int kCapacity, int kUnroll>
class RowSelector {
 public:
  struct Shared : SortShared<kThreads, kCapacity> {
    SearchShared search;
    uint32_t queued;  // keys of this block that reached the threshold
    uint32_t base;    // of this block's keys among the group's
  };

  // The answer, in the group's leader: shared.keys[0, kept) hold the min(k, keys there are) best,
  // best first.
  struct Selected {
    uint32_t kept = 0;
    uint32_t candidates = 0;  // keys sorted to find them
  };

  // candidates: [kCapacity] of the group, where it has several blocks. All threads of all blocks of
  // the group call it.
  __device__ static Selected Select(const RowReader<Source>& row, uint32_t k, BlockGroup& group,
                                    uint64_t* candidates, Shared& shared) {
    const RowShare share = {static_cast<uint32_t>(group.rank()),
                            static_cast<uint32_t>(group.size())};
    const int pairs_log2 =
        PlanSample({row.size(), k, kCapacity, RowReader<Source>::kPerVector, share.size});
    uint64_t threshold = 1;
    if (pairs_log2 >= 0) {
      const RowSample<Source, kThreads> sample = {row, share, pairs_log2};
      threshold = Search::Find(sample, TargetOf(k, sample.Share(), kCapacity), group, shared);
    }
    uint32_t total = 0;
    for (bool count_all = pairs_log2 == kWholeRow;; count_all = true) {
      if (count_all) {
        const WholeRow<Source, kThreads> whole = {row, share};
        threshold = Search::Find(whole, {k, kCapacity}, group, shared);
      }
      total = Gather(row, share, threshold, group, candidates, shared);
      // A sample is a guess; this is the proof. A threshold found over all keys needs none.
      const bool enough = total >= k || threshold == 1;
      if (count_all || (total <= kCapacity && enough)) break;
    }
    if (!group.leads()) return {};
    if (group.size() > 1) {
      for (uint32_t i = threadIdx.x; i < total; i += kThreads) {
        shared.keys[i] = __ldcg(&candidates[i]);
      }
      __syncthreads();
    }
    BucketSort<kThreads, kCapacity>::Sort(shared, total);
    return {min(k, total), total};
  }

 private:
  using Search = ThresholdSearch<kThreads, Shared>;

  // The number of keys that reach the threshold. At most kCapacity are kept: in shared.keys of a
  // block alone, in `candidates` of a group.
  __device__ static uint32_t Gather(const RowReader<Source>& row, RowShare share,
                                    uint64_t threshold, BlockGroup& group, uint64_t* candidates,
                                    Shared& shared) {
    if (threadIdx.x == 0) shared.queued = 0;
    __syncthreads();
    KeyCollector<Source, kThreads, kUnroll>::Collect(row, share, threshold,
                                                     {shared.keys, &shared.queued, kCapacity});
    __syncthreads();
    const uint32_t queued = shared.queued;
    if (group.size() == 1) {
      __syncthreads();
      return queued;
    }
    return group.GatherKeys<kThreads>(shared.keys, queued, candidates, kCapacity, &shared.base);
  }
};

}  // namespace nearfield::gpu

#endif  // NEARFIELD_ENGINE_GPU_KERNELS_SELECT_ROW_SELECTOR_CUH_
