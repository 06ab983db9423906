// The scan of rows for many queries: a block multiplies 64 rows with 64 queries on the tensor
// cores, in fp64.
//
// The tensor cores add in an order of their own, so a sum may differ from the canonical one, but
// not by more than a bound (TileSlack). Where the two ends of this interval round to the same
// score, it is the canonical score, because every score is a monotone function of the sum. The few
// other pairs are listed, and ScanLeftKernel scores them canonically.
#pragma once

#include <cuda_pipeline_primitives.h>

#include <cstdint>

#include "engine/gpu/kernels/primitives/row_elements.cuh"
#include "engine/gpu/kernels/primitives/score_step.cuh"
#include "engine/gpu/kernels/primitives/warp_tree.cuh"
#include "engine/gpu/kernels/row_scan/finish_key.cuh"
#include "engine/gpu/kernels/row_scan/scan.h"
#include "engine/score/score.h"

namespace nearfield::gpu {

// A warp multiplies 32 rows with 32 queries: 2 x 4 products of 16 x 8.
inline constexpr int kTileWarpSide = 32;
inline constexpr int kTileWarpsOfQueries = kScanTileQueries / kTileWarpSide;
inline constexpr int kTileRowParts = kTileWarpSide / 16;
inline constexpr int kTileQueryParts = kTileWarpSide / 8;
inline constexpr int kTileGroupElements = 2 * kLaidPairs;

// 32 elements of the rows and queries of a tile. The queries are as LaunchLayQueries wrote them. A
// row is stored with the eighth one after it, element by element (RowPairAt), as a product takes
// them.
struct TileStage {
  double2 rows[kLaidGroups][kScanTileRows / 2][kTileGroupElements];
  double2 queries[kLaidGroups][kScanTileQueries][kLaidPairs];
};
static_assert(2 * sizeof(TileStage) == kScanTileSharedBytes);

// Returns where a group of the rows' pair has an element: permuted, so that neither the threads
// that store neighboring elements meet in a bank nor those that load the same ones of two pairs.
__device__ __forceinline__ constexpr int RowPairAt(int pair, int group, int element) {
  return element ^ (element / 8 * 2) ^ group ^ (pair % 2);
}

// D += A B, for the 16 x 16 elements of A and the 16 x 8 of B that a warp holds.
// Source: PTX ISA, "Matrix Fragments for mma.m16n8k16 with floating point type".
__device__ __forceinline__ void MultiplyAdd(double (&sums)[4], const double (&rows)[8],
                                            const double (&queries)[4]) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm("mma.sync.aligned.m16n8k16.row.col.f64.f64.f64.f64.rn {%0, %1, %2, %3}, "
      "{%4, %5, %6, %7, %8, %9, %10, %11}, {%12, %13, %14, %15}, {%0, %1, %2, %3};"
      : "+d"(sums[0]), "+d"(sums[1]), "+d"(sums[2]), "+d"(sums[3])
      : "d"(rows[0]), "d"(rows[1]), "d"(rows[2]), "d"(rows[3]), "d"(rows[4]), "d"(rows[5]),
        "d"(rows[6]), "d"(rows[7]), "d"(queries[0]), "d"(queries[1]), "d"(queries[2]),
        "d"(queries[3]));
#else
  __trap();  // ScanTilesServe
#endif
}

// Brings the rows and queries of a block to shared memory, 32 elements at a time.
template <typename Row>
class TileFeed {
 public:
  // slot_at(i) is the slot of the block's row i. `queries`: the block's, as LaunchLayQueries wrote
  // them.
  template <typename SlotAt>
  __device__ TileFeed(const RowsView& rows, const SlotAt& slot_at, const double2* queries)
      : queries_(queries) {
#pragma unroll
    for (int i = 0; i < kRowsOfThread; ++i) {
      rows_[i] = reinterpret_cast<const typename Row::Quad*>(
                     rows.row(slot_at(static_cast<uint32_t>(RowOf(i))))) +
                 Quad();
    }
  }

  // Requests the elements of a step.
  __device__ __forceinline__ void Fetch(int step, TileStage& to) {
#pragma unroll
    for (int i = 0; i < kRowsOfThread; ++i) {
      LoadStreaming(rows_[i] + step * kQuadsOfStep, quads_[i]);
    }
    constexpr int kQueryBytes = sizeof(to.queries) / sizeof(double2);
    auto* const queries = &to.queries[0][0][0];
    const double2* const from = queries_ + static_cast<int64_t>(step) * kQueryBytes;
#pragma unroll
    for (int i = static_cast<int>(threadIdx.x); i < kQueryBytes; i += kScanTileThreads) {
      __pipeline_memcpy_async(queries + i, from + i, sizeof(double2));
    }
    __pipeline_commit();
  }

  // Stores the rows that Fetch requested, and awaits the queries.
  __device__ __forceinline__ void Store(TileStage& to) const {
    const int group = Quad() / 4;
    const int element = Quad() % 4 * 4;
#pragma unroll
    for (int i = 0; i < kRowsOfThread; i += 2) {
      const int pair = RowOf(i) / 16 * 8 + RowOf(i) % 8;
      auto& pairs = to.rows[group][pair];
      pairs[RowPairAt(pair, group, element)] = ValuesOf<0>(i);
      pairs[RowPairAt(pair, group, element + 1)] = ValuesOf<1>(i);
      pairs[RowPairAt(pair, group, element + 2)] = ValuesOf<2>(i);
      pairs[RowPairAt(pair, group, element + 3)] = ValuesOf<3>(i);
    }
    __pipeline_wait_prior(0);
  }

 private:
  static constexpr int kQuadsOfStep = kWarp / 4;
  static constexpr int kRowsOfThread = kScanTileRows * kQuadsOfStep / kScanTileThreads;
  static_assert(kRowsOfThread == 4 && kScanTileThreads / kQuadsOfStep * 4 == kScanTileRows);

  __device__ static int Quad() { return static_cast<int>(threadIdx.x) % kQuadsOfStep; }
  // Returns this thread's row i: 8 rows lie between two of them.
  __device__ static int RowOf(int i) {
    const int thread = static_cast<int>(threadIdx.x) / kQuadsOfStep;
    return thread / 8 * 32 + thread % 8 + 8 * i;
  }
  template <int kElement>
  __device__ __forceinline__ double2 ValuesOf(int i) const {
    return {Row::template ValueOf<kElement>(quads_[i]),
            Row::template ValueOf<kElement>(quads_[i + 1])};
  }

  const double2* const queries_;
  const typename Row::Quad* rows_[kRowsOfThread];
  typename Row::Quad quads_[kRowsOfThread];
};

// The sums of a warp's rows and queries.
class TileSums {
 public:
  static constexpr int kRows = 2 * kTileRowParts;  // of a thread
  static constexpr int kQueries = 2 * kTileQueryParts;

  __device__ TileSums()
      : first_row_(Warp() / kTileWarpsOfQueries * kTileWarpSide),
        first_query_(Warp() % kTileWarpsOfQueries * kTileWarpSide) {}

  __device__ __forceinline__ void Add(const TileStage& stage) {
    Operands operands[2];  // one is multiplied while the next one is loaded
    Load(stage, 0, operands[0]);
#pragma unroll
    for (int group = 0; group < kLaidGroups; ++group) {
      if (group + 1 < kLaidGroups) Load(stage, group + 1, operands[(group + 1) % 2]);
      const Operands& now = operands[group % 2];
#pragma unroll
      for (int queries = 0; queries < kTileQueryParts; ++queries) {
#pragma unroll
        for (int rows = 0; rows < kTileRowParts; ++rows) {
          MultiplyAdd(sums_[rows][queries], now.rows[rows], now.queries[queries]);
        }
      }
    }
  }

  // Return the places in the tile of this thread's rows and queries, and their sum.
  __device__ int RowAt(int r) const { return first_row_ + 8 * r + Lane() / 4; }
  __device__ int QueryAt(int q) const { return first_query_ + q / 2 * 8 + Lane() % 4 * 2 + q % 2; }
  __device__ double sum(int r, int q) const { return sums_[r / 2][q / 2][r % 2 * 2 + q % 2]; }

 private:
  // This lane's elements of a group: 2i, 2i + 1, 2i + 8 and 2i + 9 with i = Lane() % 4, of rows
  // and queries alike. So each load has what a product takes, in the order of its registers.
  struct Operands {
    double rows[kTileRowParts][8];
    double queries[kTileQueryParts][4];
  };

  __device__ static int Lane() { return static_cast<int>(threadIdx.x) % kWarp; }
  __device__ static int Warp() { return static_cast<int>(threadIdx.x) / kWarp; }

  __device__ __forceinline__ void Load(const TileStage& stage, int group, Operands& to) const {
#pragma unroll
    for (int part = 0; part < kTileRowParts; ++part) {
      const int pair = first_row_ / 2 + part * 8 + Lane() / 4;
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int element = Lane() % 4 * 2 + i % 2 + i / 2 * 8;
        const double2 both = stage.rows[group][pair][RowPairAt(pair, group, element)];
        to.rows[part][2 * i] = both.x;
        to.rows[part][2 * i + 1] = both.y;
      }
    }
#pragma unroll
    for (int part = 0; part < kTileQueryParts; ++part) {
      const int query = first_query_ + part * 8 + Lane() / 4;
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const double2 both = stage.queries[group][query][LaidAt(query, group, Lane() % 4 + 4 * i)];
        to.queries[part][2 * i] = both.x;
        to.queries[part][2 * i + 1] = both.y;
      }
    }
  }

  const int first_row_;
  const int first_query_;
  double sums_[kTileRowParts][kTileQueryParts][4] = {};
};

// By how much two sums of the same products may differ, whatever the order of the additions, as a
// part of |q||x|; for L2, of |q|^2 + |x|^2. An addition errs by at most 2^-53 of the sum of the
// products' magnitudes, which is at most |q||x|. So a sum errs by (padded + 5) 2^-53, and two by
// twice this; the rest is room for a hardware that truncates, and for the norms' own rounding.
__device__ inline double TileSlack(const RowShape& shape) { return (shape.padded + 64) * 0x1p-50; }

// Scores rows [row_begin, row_end) for all queries and writes their order keys; kNoKey for dead
// rows. Lists the pairs whose canonical score is not certain.
// Grid (tiles of 64 queries x tiles of 64 rows), block 128: a warp has 32 rows x 32 queries.
// Reads each row once per 64 queries and each query once per 64 rows, from L2. Writes 8 B per row
// and query.
// Arithmetic per row and query: `padded` fp64 products (128 per clock and SM).
//   1M x 384, 1,024 queries: 3.9e11, so 12 ms at 132 x 1.98 GHz x 128.
// Requires: args.laid; kScanTileSharedBytes of dynamic shared memory; compute capability 9.0.
// Steps: 1 products, step by step, 2 intervals, scores and keys.
template <typename Row, bool kL2>
__global__ void __launch_bounds__(kScanTileThreads, 2)
    TileScanKernel(const __grid_constant__ ScanArgs args) {
  extern __shared__ double2 shared_bytes[];
  auto* const stages = reinterpret_cast<TileStage*>(shared_bytes);
  const int query_tiles = (args.queries_count + kScanTileQueries - 1) / kScanTileQueries;
  const int first_query =
      static_cast<int>(blockIdx.x % static_cast<uint32_t>(query_tiles)) * kScanTileQueries;
  const uint32_t first_row =
      args.row_begin + blockIdx.x / static_cast<uint32_t>(query_tiles) * kScanTileRows;
  const RowShape shape = args.rows.shape;
  const int steps = shape.padded / kWarp;
  TileFeed<Row> feed(
      args.rows, [&](uint32_t i) { return args.SlotOf(min(first_row + i, args.row_end - 1)); },
      args.laid.queries + int64_t{first_query} * shape.padded / 2);
  TileSums sums;
  feed.Fetch(0, stages[0]);
  feed.Store(stages[0]);
  __syncthreads();
  for (int step = 0; step < steps; ++step) {
    TileStage& next = stages[(step + 1) % 2];
    const bool more = step + 1 < steps;
    if (more) feed.Fetch(step + 1, next);
    sums.Add(stages[step % 2]);
    if (more) feed.Store(next);
    __syncthreads();
  }

  const bool cosine = !kL2 && args.metric == Metric::kCosine;
  const double slack = TileSlack(shape);
  RowProperties properties[TileSums::kRows];
#pragma unroll
  for (int r = 0; r < TileSums::kRows; ++r) {
    const uint32_t row = first_row + static_cast<uint32_t>(sums.RowAt(r));
    if (row < args.row_end) properties[r] = LoadRowProperties(args, args.SlotOf(row), true);
  }
#pragma unroll
  for (int r = 0; r < TileSums::kRows; ++r) {
    const uint32_t row = first_row + static_cast<uint32_t>(sums.RowAt(r));
    if (row >= args.row_end) continue;
    const double magnitude = kL2 ? properties[r].squared : sqrt(properties[r].squared);
#pragma unroll
    for (int q = 0; q < TileSums::kQueries; ++q) {
      const int query = first_query + sums.QueryAt(q);
      if (query >= args.queries_count) continue;
      const double of_query = args.laid.magnitudes[query];
      double low;
      double high;
      if constexpr (kL2) {
        const double squares = of_query + magnitude;
        const double distance = squares - 2 * sums.sum(r, q);
        low = fmax(distance - slack * squares, 0.0);
        high = distance + slack * squares;
      } else {
        const double room = slack * of_query * magnitude;
        low = sums.sum(r, q) - room;
        high = sums.sum(r, q) + room;
      }
      const double squared = cosine ? args.query_squared[query] : 1.0;
      const uint64_t key = FinishKey<kL2>(args.metric, low, squared, properties[r]);
      args.keys[static_cast<int64_t>(query) * args.keys_pitch + (row - args.row_begin)] = key;
      if (key == FinishKey<kL2>(args.metric, high, squared, properties[r])) continue;
      args.laid.left->Add(static_cast<uint32_t>(query), row);
    }
  }
}

// Scores the pairs that TileScanKernel listed, canonically, and empties the list. Says so if there
// were more than it has room for: then keys are missing.
// Grid (any), block 256: a warp scores a pair at a time. Reads a row and a query per pair.
template <typename Row, bool kL2>
__global__ void __launch_bounds__(kScanThreads)
    ScanLeftKernel(const __grid_constant__ ScanArgs args) {
  ScanLeft& left = *args.laid.left;
  const uint32_t listed = left.count;
  const uint32_t count = min(listed, kScanLeftMax);
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const RowShape shape = args.rows.shape;
  constexpr uint32_t kWarps = kScanThreads / kWarp;
  for (uint32_t i = blockIdx.x * kWarps + threadIdx.x / kWarp; i < count; i += gridDim.x * kWarps) {
    const auto [query, row] = left.pairs[i];
    const uint32_t slot = args.SlotOf(row);
    const float* const vector = args.queries + static_cast<int64_t>(query) * shape.dim;
    const char* const elements = args.rows.row(slot);
    double sums[1] = {0.0};
    for (int d = lane; d < shape.dim; d += kWarp) {
      const auto element =
          __ldg(reinterpret_cast<const typename Row::Element*>(elements) + RowPosition(shape, d));
      sums[0] = ScoreStep<kL2>(vector[d], Row::Value(element), sums[0]);
    }
    const double sum = WarpTree(sums, lane);
    if (lane != 0) continue;
    const bool cosine = !kL2 && args.metric == Metric::kCosine;
    args.keys[static_cast<int64_t>(query) * args.keys_pitch + (row - args.row_begin)] =
        FinishKey<kL2>(args.metric, sum, cosine ? args.query_squared[query] : 1.0,
                       LoadRowProperties(args, slot, cosine));
  }
  __syncthreads();
  if (threadIdx.x != 0 || atomicInc(&left.blocks_done, gridDim.x - 1) + 1 != gridDim.x) return;
  if (listed > kScanLeftMax) *args.laid.overflow = 1;
  left.count = 0;
}

}  // namespace nearfield::gpu
