// Selection by sorting: every warp sorts its part of the row tile by tile, and keeps the best in
// registers.
//
// Where radix selection takes over. With w warps on a row of n scores and tiles of C keys (k up to
// a power of two), a warp has T = n / (w * C) tiles. In random order the t-th holds a key for the
// list with probability min(1, k / t), so k * (1 + ln(T / k)) of them are sorted where T > k, and
// all T where not; in ascending order always all. A sort and merge of C keys is about
// s(C) = C / 32 * (3 * log2(C)^2 + 12 * log2(C)) warp instructions (512 keys: 5,600), four a clock
// and multiprocessor at best:
//   time = max(row bytes / bandwidth, batch * w * sorted tiles * s(C) / (4 * multiprocessors *
//   clock)).
// Radix selection reads the row twice and then has a fixed cost: so it wins as soon as the second
// term passes twice the first, and for one tile a warp never does. For k <= 32 that is nowhere near
// for random scores; for k > 128 it is where a warp sorts a handful of tiles. The table of the
// adaptive choice has the measured places.
#include <cstdint>

#include "engine/gpu/kernels/select/algorithm.h"
#include "engine/gpu/kernels/select/list_launch.cuh"
#include "engine/gpu/kernels/select/row_lists.cuh"
#include "engine/gpu/kernels/select/score_batch.cuh"
#include "engine/gpu/kernels/select/score_types.cuh"
#include "engine/gpu/kernels/select/warp_list.cuh"

namespace nearfield::gpu {
namespace {

constexpr int64_t kBlockSortKMax = 512;

using Staged = StagedList<kListThreads, 9>;
static_assert(kBlockSortKMax * 2 <= Staged::kCapacity, "half of it stages");

// Sorts keys of one lane, kCount / kRegisters tiles of the warp, into the list; tiles without a
// useful key are passed over.
template <int kRegisters, int kCount>
__device__ __forceinline__ void MergeKeys(const uint64_t (&keys)[kCount], uint32_t k,
                                          WarpList<kRegisters>& list, uint64_t& threshold) {
#pragma unroll
  for (int first = 0; first < kCount; first += kRegisters) {
    uint64_t tile[kRegisters];
    bool is_useful = false;
#pragma unroll
    for (int r = 0; r < kRegisters; ++r) {
      tile[r] = keys[first + r];
      is_useful |= tile[r] > threshold;
    }
    if (!__any_sync(0xffffffffu, is_useful)) continue;
    list.MergeTile(tile);
    threshold = list.At(k - 1);
  }
}

// The steps of a row this warp takes; behind them, as a step of their own, the row's edges, which
// go to its first warp.
template <typename Scores, int kRegisters>
__device__ __forceinline__ void SortRow(const ListRows& rows, WarpList<kRegisters>& list) {
  using Batch = ScoreBatch<Scores>;
  constexpr int kGroup = kRegisters < 4 ? 4 : kRegisters;
  const RowReader<Scores> row = ReaderOf<Scores>(rows);
  const uint32_t steps = Batch::Steps(row);
  const uint32_t warps = gridDim.y * kListWarps;
  const uint32_t warp = blockIdx.y * kListWarps + threadIdx.x / 32;
  uint64_t threshold = kNoSelectKey;
  uint32_t step = warp;
  Batch next;
  next.Load(row, step);
  while (true) {
    const bool has_edges = step >= steps;
    if (has_edges && (warp != 0 || row.edges() == 0)) return;
    const Batch batch = next;
    next.Load(row, step + warps);
    const bool reaches = has_edges || batch.Reaches(ScoreOf(KeyOrder(threshold)));
    if (__any_sync(0xffffffffu, reaches)) {
      const int groups = has_edges ? 1 : Batch::kScores / kGroup;
#pragma unroll 1
      for (int group = 0; group < groups; ++group) {
        uint64_t keys[kGroup] = {};
        if (has_edges) {
          keys[0] = EdgeKey(row, threadIdx.x % 32);
        } else {
          batch.Keys(row, group, keys);
        }
        MergeKeys(keys, rows.k, list, threshold);
      }
    }
    if (has_edges) return;
    step += warps;
  }
}

template <int kRegisters>
union Shared {
  uint64_t lists[kListWarps / 2 * WarpList<kRegisters>::kCapacity];
  Staged staged;
};

// Selects, for each row, the k best scores by sorting all that may be among them.
// Grid (batch, blocks a row), block 256: the row's steps of 128 vectors go to its warps in turn.
// Reads the row once, 16-byte loads, the next 64 bytes a lane on their way meanwhile; writes 8 B a
//   result, and with several blocks a row k * 8 B a block, of which the last block reads back about
//   2k * 8 B.
// Requires k <= 32 * kRegisters; blocks a row <= 256; tickets zero.
// Steps: 1 each warp sorts tiles of 32 * kRegisters keys that have one above its k-th best, and
//   merges them into its list, all in registers; 2 the block's warps merge pairwise; 3 the row's
//   last block merges the blocks' lists.
// Source: Batcher, "Sorting networks and their applications", AFIPS 1968; keeping a sorted list a
//   warp: Johnson, Douze, Jegou, "Billion-scale similarity search with GPUs", IEEE Trans. Big Data
//   2021. Differs: no queues a thread, unique keys, any number of blocks a row in one launch.
template <typename Scores, int kRegisters>
__global__ void __launch_bounds__(kListThreads, kRegisters > 4 ? 2 : 3)
    BlockSortKernel(const ListRows rows) {
  __shared__ Shared<kRegisters> shared;
  WarpList<kRegisters> list;
  SortRow<Scores>(rows, list);
  MergeWarpLists(list, shared.lists);
  FinishRow<Scores>(rows, shared.staged, [&](uint32_t rank) {
    return WarpList<kRegisters>::Stored(shared.lists, rank);
  });
}

struct Kernels {
  template <typename Scores>
  static ListKernel Of(int64_t k) {
    if (k <= 32) return BlockSortKernel<Scores, 1>;
    if (k <= 128) return BlockSortKernel<Scores, 4>;
    return BlockSortKernel<Scores, 16>;
  }
};

const char* Refuses(const SelectShape& shape, const SelectFacts& /*facts*/) {
  return shape.k <= kBlockSortKMax ? nullptr : "k is above 512, the limit of block_sort";
}

}  // namespace

const SelectAlgorithm kBlockSort = {
    .name = "block_sort",
    .summary = "Each warp sorts its part of a row tile by tile and keeps the best; k up to 512.",
    .refuses = Refuses,
    .workspace_bytes = ListWorkspaceBytes,
    .prepare = PrepareListKernels,
    .launch = LaunchListKernel<Kernels>,
};

}  // namespace nearfield::gpu
