// Block filter selection: stages only scores above a running threshold, and sorts the staged keys
// into the list when the staging buffer is full. For k <= 512 every warp has its own list in
// registers; for k <= 2,048 the block has one list in shared memory.
//
// The policy in engine/topk/algorithms.cc does not choose it; the measurement is there.
//
// Crossover with radix selection. A block that receives s scores of a row in random order stages a
// = k * (1 + ln(s / k)) of them; in ascending order it stages all s. A warp sorts C keys at a time
// (k rounded up to a power of two) in s(C) warp instructions (see block_sort). A block sorts 4,352
// - k keys at a time in about b = 30,000 instructions of all its warps:
//   time = max(row bytes / bandwidth, batch * blocks * x / (4 * multiprocessors * clock)),
//   x = a / C * s(C) for k <= 512, a / (4,352 - k) * b above.
// Radix selection reads the row twice and has a fixed cost, so it wins where the second term
// exceeds twice the first: at x * bandwidth > 8 * multiprocessors * clock * bytes per block. a / s
// falls as rows get longer, so for longer rows this point is at a larger k.
#include <cstdint>

#include "engine/topk/score_types.cuh"
#include "tests/bench/published/algorithms.h"
#include "tests/bench/published/list_launch.cuh"
#include "tests/bench/published/row_lists.cuh"
#include "tests/bench/published/score_batch.cuh"
#include "tests/bench/published/warp_list.cuh"

namespace nearfield::gpu::published {
namespace {

constexpr int64_t kWarpListsKMax = 512;
constexpr int64_t kBlockFilterKMax = 2048;
constexpr int kOffered = 4;  // keys of a lane that are staged together

using SmallStaged = StagedList<kListThreads, 9>;
using LargeStaged = StagedList<kListThreads, 17>;
static_assert(kWarpListsKMax * 2 <= SmallStaged::kCapacity, "half of it is for staged scores");
static_assert(kBlockFilterKMax * 2 <= LargeStaged::kCapacity, "half of it is for staged scores");

// Thresholds that the warps of a block share without barriers. They only rise, through Raise alone,
// so a stale value is only a looser lower bound.
struct Thresholds {
  uint64_t best;                // no key below it is among the k best
  uint64_t shares[kListWarps];  // of each warp: its ceil(k / kListWarps)-th best key so far
};

__device__ __forceinline__ uint64_t ReadNow(const uint64_t& shared) {
  return *static_cast<const volatile uint64_t*>(&shared);
}

__device__ __forceinline__ void Raise(uint64_t& shared, uint64_t key) {
  atomicMax(reinterpret_cast<unsigned long long*>(&shared), static_cast<unsigned long long>(key));
}

template <int kRegisters>
class WarpFilter {
 public:
  static constexpr int kCapacity = WarpList<kRegisters>::kCapacity;
  static constexpr uint32_t kStaging = kCapacity + kWarp * kOffered;

  __device__ __forceinline__ WarpFilter(uint32_t k, uint64_t* staging, Thresholds& thresholds)
      : k_(k), staging_(staging), thresholds_(thresholds) {}

  // Stages the keys above the threshold. Sorts while a full tile is staged; if the row ends, sorts
  // the rest too.
  __device__ __forceinline__ void Offer(const uint64_t (&keys)[kOffered], bool ends) {
    const uint64_t threshold = ReadNow(thresholds_.best);
    const uint32_t before_me = (1u << threadIdx.x % kWarp) - 1;
#pragma unroll
    for (int i = 0; i < kOffered; ++i) {
      const bool reaches = keys[i] > threshold;
      const uint32_t wanted = __ballot_sync(kFullWarp, reaches);
      if (reaches) staging_[staged_ + __popc(wanted & before_me)] = keys[i];
      staged_ += static_cast<uint32_t>(__popc(wanted));
    }
#pragma unroll 1
    while (staged_ >= kCapacity || (ends && staged_ > 0)) SortStaged();
  }

  __device__ __forceinline__ WarpList<kRegisters>& list() { return list_; }

 private:
  // Moves up to a tile of keys from the end of the staging buffer into the list.
  __device__ __forceinline__ void SortStaged() {
    const uint32_t count = min(staged_, static_cast<uint32_t>(kCapacity));
    staged_ -= count;
    __syncwarp();  // makes the keys that other lanes staged visible
    uint64_t tile[kRegisters];
#pragma unroll
    for (uint32_t r = 0; r < kRegisters; ++r) {
      const uint32_t at = r * kWarp + threadIdx.x % kWarp;
      tile[r] = at < count ? staging_[staged_ + at] : kNoSelectKey;
    }
    __syncwarp();  // before any lane overwrites them
    list_.MergeTile(tile);
    Publish();
  }

  // Publishes the larger of two bounds that k keys of the block reach: the warp's own k-th best
  // key, and the smallest of the warps' shares. Each warp has k / kListWarps keys that reach its
  // share.
  __device__ __forceinline__ void Publish() {
    const uint32_t lane = threadIdx.x % kWarp;
    const uint64_t share = list_.At((k_ + kListWarps - 1) / kListWarps - 1);
    const uint64_t own = list_.At(k_ - 1);
    if (lane == 0) Raise(thresholds_.shares[threadIdx.x / kWarp], share);
    __syncwarp();
    uint64_t least = ReadNow(thresholds_.shares[lane % kListWarps]);
#pragma unroll
    for (int distance = kListWarps / 2; distance > 0; distance /= 2) {
      const uint64_t other = __shfl_xor_sync(kFullWarp, least, distance);
      if (other < least) least = other;
    }
    const uint64_t bound = own > least ? own : least;
    if (lane == 0 && bound > ReadNow(thresholds_.best)) Raise(thresholds_.best, bound);
    __syncwarp();
  }

  const uint32_t k_;
  uint64_t* const staging_;
  Thresholds& thresholds_;
  uint32_t staged_ = 0;  // the same in all lanes
  WarpList<kRegisters> list_;
};

// Filters this warp's steps of the row. The row's edges are one extra step after the others, for
// the row's first warp.
template <typename Scores, int kRegisters>
__device__ __forceinline__ void FilterRow(const ListRows& rows, const Thresholds& thresholds,
                                          WarpFilter<kRegisters>& filter) {
  using Batch = ScoreBatch<Scores>;
  const RowReader<Scores> row = ReaderOf<Scores>(rows);
  const uint32_t steps = Batch::Steps(row);
  const uint32_t warps = gridDim.y * kListWarps;
  const uint32_t warp = blockIdx.y * kListWarps + threadIdx.x / kWarp;
  uint32_t step = warp;
  Batch next;
  next.Load(row, step);
  while (true) {
    const bool ends = step >= steps;
    const Batch batch = next;
    next.Load(row, step + warps);
    const bool reaches = ends || batch.Reaches(Scores::OfOrder(KeyOrder(ReadNow(thresholds.best))));
    if (__any_sync(kFullWarp, reaches)) {
      const int groups = ends ? 1 : Batch::kScores / kOffered;
#pragma unroll 1
      for (int group = 0; group < groups; ++group) {
        uint64_t keys[kOffered] = {};
        if (!ends) {
          batch.Keys(row, group, keys);
        } else if (warp == 0) {
          keys[0] = EdgeKey(row, threadIdx.x % kWarp);
        }
        filter.Offer(keys, ends);
      }
    }
    if (ends) return;
    step += warps;
  }
}

template <int kRegisters>
struct Shared {
  union {
    uint64_t staging[kListWarps][WarpFilter<kRegisters>::kStaging];
    uint64_t lists[kListWarps / 2 * WarpFilter<kRegisters>::kCapacity];
    SmallStaged staged;
  };
  Thresholds thresholds;
};

// Selects, for each row, the k best scores; sorts only those above a running threshold.
// Grid (batch, blocks per row), block 256: the row's steps of 128 vectors go to its warps in turn.
// Reads the row once with 16-byte loads, with the next 64 bytes per lane in flight. Writes 8 B per
// result. With several blocks per row also writes k * 8 B per block, of which the last block reads
// back about 2k * 8 B.
// Requires: k <= 32 * kRegisters; blocks per row <= 256; tickets zero.
// Steps: 1 a warp stages the keys above the block's threshold, by ballot; 2 when its staging buffer
// is full, it sorts 32 * kRegisters of its keys, merges them into its list and raises the
// threshold; 3 the block's warps merge pairwise; 4 the row's last block merges the lists of the
// blocks.
// Source: Zhang, Naruse, Li, Wang, "Parallel Top-K Algorithms on GPU: A Comprehensive Study and New
// Methods", SC 2023 (queues filled by ballot). Differs: the warps share one threshold, derived from
// all their lists; keys are unique; a row can have any number of blocks in one launch.
template <typename Scores, int kRegisters>
__global__ void __launch_bounds__(kListThreads, kRegisters > 4 ? 2 : 3)
    WarpFilterKernel(const ListRows rows) {
  __shared__ Shared<kRegisters> shared;
  if (threadIdx.x < kListWarps) shared.thresholds.shares[threadIdx.x] = kNoSelectKey;
  if (threadIdx.x == 0) shared.thresholds.best = kNoSelectKey;
  __syncthreads();
  WarpFilter<kRegisters> filter(rows.k, shared.staging[threadIdx.x / kWarp], shared.thresholds);
  FilterRow<Scores>(rows, shared.thresholds, filter);
  MergeWarpLists(filter.list(), shared.lists);
  FinishRow<Scores>(rows, shared.staged, [&](uint32_t rank) {
    return WarpList<kRegisters>::Stored(shared.lists, rank);
  });
}

// Selects, for each row, the k best scores; sorts only those above a running threshold.
// Grid (batch, blocks per row), block 256: in each turn the block's warps take eight adjacent steps
// of 128 vectors.
// Reads the row once with 16-byte loads, with the next 64 bytes per thread in flight. Writes 8 B
// per result. With several blocks per row also writes k * 8 B per block, of which the last block
// reads back about 2k * 8 B.
// Requires: k <= 2048; blocks per row <= 256; tickets zero.
// Steps: 1 keys above the threshold are appended after the list, in shared memory; 2 when it is
// full, the block sorts all of it and keeps k; 3 the row's last block merges the lists of the
// blocks in the same way.
// Source: as WarpFilterKernel. Differs: the block has one list, so registers do not limit its
// length.
template <typename Scores>
__global__ void __launch_bounds__(kListThreads, 2) BlockFilterKernel(const ListRows rows) {
  using Batch = ScoreBatch<Scores>;
  constexpr int kGroup = 16;
  __shared__ LargeStaged staged;
  const RowReader<Scores> row = ReaderOf<Scores>(rows);
  const uint32_t turns = (Batch::Steps(row) + kListWarps - 1) / kListWarps;
  const uint32_t warp = threadIdx.x / kWarp;
  staged.Restart(0);
  Batch next;
  next.Load(row, blockIdx.y * kListWarps + warp);
#pragma unroll 1
  for (uint32_t turn = blockIdx.y; turn < turns; turn += gridDim.y) {
    const Batch batch = next;
    next.Load(row, (turn + gridDim.y) * kListWarps + warp);
#pragma unroll 1
    for (int group = 0; group < Batch::kScores / kGroup; ++group) {
      const bool reaches = batch.Reaches(Scores::OfOrder(KeyOrder(staged.threshold())));
      uint64_t keys[kGroup] = {};
      if (__any_sync(kFullWarp, reaches)) batch.Keys(row, group, keys);
      staged.Add(keys, rows.k);
    }
  }
  const bool has_edges = blockIdx.y == 0 && warp == 0;
  const uint64_t edge[1] = {has_edges ? EdgeKey(row, threadIdx.x % kWarp) : kNoSelectKey};
  staged.Add(edge, rows.k);
  staged.MergeStaged(rows.k);
  FinishRow<Scores>(rows, staged, [&](uint32_t rank) { return staged.At(rank); });
}

struct Kernels {
  template <typename Scores>
  static ListKernel Of(int64_t k) {
    if (k <= 32) return WarpFilterKernel<Scores, 1>;
    if (k <= 128) return WarpFilterKernel<Scores, 4>;
    if (k <= kWarpListsKMax) return WarpFilterKernel<Scores, 16>;
    return BlockFilterKernel<Scores>;
  }
};

const char* Refuses(const SelectShape& shape, const SelectDevice& /*device*/) {
  return shape.k <= kBlockFilterKMax ? nullptr : "k is above 2048, the limit of block_filter";
}

}  // namespace

const SelectAlgorithm kBlockFilter = {
    .name = "block_filter",
    .summary = "Only scores above a running threshold are staged and sorted in; k up to 2048.",
    .refuses = Refuses,
    .workspace_bytes = ListWorkspaceBytes,
    .prepare = PrepareListKernels,
    .launch = LaunchListKernel<Kernels>,
};

}  // namespace nearfield::gpu::published
