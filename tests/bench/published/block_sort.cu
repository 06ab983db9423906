// Block sort selection: every warp sorts its part of the row tile by tile, and keeps the best keys
// in registers.
//
// The policy in engine/topk/algorithms.cc does not choose it; the measurement is there.
//
// Crossover with radix selection. With w warps on a row of n scores and tiles of C keys (k rounded
// up to a power of two), a warp has T = n / (w * C) tiles. In random order, tile t holds a key for
// the list with probability min(1, k / t), so k * (1 + ln(T / k)) tiles are sorted if T > k, and
// all T otherwise. In ascending order all are sorted. Sorting and merging C keys takes about s(C) =
// C / 32 * (3 * log2(C)^2 + 12 * log2(C)) warp instructions (512 keys: 5,600), at best four per
// clock and multiprocessor:
//   time = max(row bytes / bandwidth, batch * w * sorted tiles * s(C) / (4 * multiprocessors *
//   clock)).
// Radix selection reads the row twice and has a fixed cost, so it wins where the second term
// exceeds twice the first. With one tile per warp it never does. For k <= 32 and random scores that
// point is far away; for k > 128 a warp reaches it after a few tiles.
#include <cstdint>

#include "engine/topk/score_types.cuh"
#include "tests/bench/published/algorithms.h"
#include "tests/bench/published/list_launch.cuh"
#include "tests/bench/published/row_lists.cuh"
#include "tests/bench/published/score_batch.cuh"
#include "tests/bench/published/warp_list.cuh"

namespace nearfield::gpu::published {
namespace {

constexpr int64_t kBlockSortKMax = 512;

using Staged = StagedList<kListThreads, 9>;
static_assert(kBlockSortKMax * 2 <= Staged::kCapacity, "half of it stages");

// Sorts the keys of the lanes, kCount / kRegisters tiles of the warp, into the list. Skips tiles
// without a useful key.
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
    if (!__any_sync(kFullWarp, is_useful)) continue;
    list.MergeTile(tile);
    threshold = list.At(k - 1);
  }
}

// Sorts this warp's steps of the row. The row's edges are one extra step after the others, for the
// row's first warp.
template <typename Scores, int kRegisters>
__device__ __forceinline__ void SortRow(const ListRows& rows, WarpList<kRegisters>& list) {
  using Batch = ScoreBatch<Scores>;
  constexpr int kGroup = kRegisters < 4 ? 4 : kRegisters;
  const RowReader<Scores> row = ReaderOf<Scores>(rows);
  const uint32_t steps = Batch::Steps(row);
  const uint32_t warps = gridDim.y * kListWarps;
  const uint32_t warp = blockIdx.y * kListWarps + threadIdx.x / kWarp;
  uint64_t threshold = kNoSelectKey;
  uint32_t step = warp;
  Batch next;
  next.Load(row, step);
  while (true) {
    const bool has_edges = step >= steps;
    if (has_edges && (warp != 0 || row.edges() == 0)) return;
    const Batch batch = next;
    next.Load(row, step + warps);
    const bool reaches = has_edges || batch.Reaches(Scores::OfOrder(KeyOrder(threshold)));
    if (__any_sync(kFullWarp, reaches)) {
      const int groups = has_edges ? 1 : Batch::kScores / kGroup;
#pragma unroll 1
      for (int group = 0; group < groups; ++group) {
        uint64_t keys[kGroup] = {};
        if (has_edges) {
          keys[0] = EdgeKey(row, threadIdx.x % kWarp);
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
// Grid (batch, blocks per row), block 256: the row's steps of 128 vectors go to its warps in turn.
// Reads the row once with 16-byte loads, with the next 64 bytes per lane in flight. Writes 8 B per
// result. With several blocks per row also writes k * 8 B per block, of which the last block reads
// back about 2k * 8 B.
// Requires: k <= 32 * kRegisters; blocks per row <= 256; tickets zero.
// Steps: 1 each warp sorts those tiles of 32 * kRegisters keys that have a key above its k-th best,
// and merges them into its list, all in registers; 2 the block's warps merge pairwise; 3 the row's
// last block merges the lists of the blocks.
// Source: Batcher, "Sorting networks and their applications", AFIPS 1968; a sorted list in each
// warp: Johnson, Douze, Jegou, "Billion-scale similarity search with GPUs", IEEE Trans. Big Data
// 2021. Differs: no per-thread queues; unique keys; any number of blocks per row in one launch.
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

const char* Refuses(const SelectShape& shape, const SelectDevice& /*device*/) {
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

}  // namespace nearfield::gpu::published
