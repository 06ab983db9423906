// The scan kernel for many queries: each block scores a tile of rows for a tile of queries. For
// every row type; each is compiled in its own file, scan_<type>.cu.
#pragma once

#include <cstdint>

#include "engine/gpu/kernels/primitives/row_elements.cuh"
#include "engine/gpu/kernels/primitives/score_step.cuh"
#include "engine/gpu/kernels/row_scan/row_properties.cuh"
#include "engine/gpu/kernels/row_scan/scan.h"
#include "engine/gpu/kernels/row_scan/scan_table.h"
#include "engine/score/order.h"
#include "engine/score/score.h"

namespace nearfield::gpu {

// Loads what one accumulator adds of a block of 128 dimensions: four elements of a row, or fewer of
// its tail, as raw bits; zeros for elements that do not exist.
template <typename Row>
__device__ typename Row::Quad LoadLaneQuad(const char* row, const RowShape& shape, int quad,
                                           int lane) {
  using Quad = typename Row::Quad;
  if (quad < shape.full_blocks) return reinterpret_cast<const Quad*>(row)[quad * kWarp + lane];
  typename Row::Element tail[kLaneDims] = {};
  if (quad == shape.full_blocks) {
    const auto* const elements =
        reinterpret_cast<const typename Row::Element*>(row) + shape.full_blocks * kBlockDims;
#pragma unroll
    for (int word = 0; word < kLaneDims; ++word) {
      if (word < shape.tail_words) tail[word] = elements[word * kWarp + lane];
    }
  }
  return Row::Pack(tail);
}

// Returns the accumulator that is summed as number `n`: the order in which a sum of all 32 as the
// canonical tree needs only one partial sum for each level of the tree.
__device__ inline int AccumulatorAt(int n) {
  return static_cast<int>(__brev(static_cast<unsigned>(n)) >> 27);
}

// The same of a query, row-major.
__device__ inline uint4 LoadQueryQuad(const float* query, const RowShape& shape, int quad,
                                      int lane) {
  uint32_t elements[kLaneDims];
#pragma unroll
  for (int j = 0; j < kLaneDims; ++j) {
    const int d = quad * kBlockDims + j * kWarp + lane;
    elements[j] = d < shape.dim ? __float_as_uint(query[d]) : 0u;
  }
  return Float32Row::Pack(elements);
}

// The part of the canonical tree that the sums so far make: one partial sum for each level.
template <int kSums>
class PartialTree {
 public:
  // Adds accumulator number n, and leaves in `sums` what it completes. After number 31 that is S.
  __device__ __forceinline__ void Add(int n, double (&sums)[kSums]) {
    bool stored = false;
#pragma unroll
    for (int level = 0; level < kLevels; ++level) {
      const bool completes = (n >> level & 1) != 0;
#pragma unroll
      for (int i = 0; i < kSums; ++i) {
        if (!stored && completes) sums[i] = partial_[level][i] + sums[i];
        if (!stored && !completes) partial_[level][i] = sums[i];
      }
      stored = stored || !completes;
    }
  }

 private:
  static constexpr int kLevels = 5;
  static_assert(1 << kLevels == score::kAccumulators);
  double partial_[kLevels][kSums];
};

// Scores rows [row_begin, row_end) for all queries, canonically, and writes their order keys;
// kNoKey for dead rows.
// Grid (tiles of rows, tiles of queries); a warp scores 32 rows for 8 queries, a thread 4 for 2.
// Reads each row once for a tile of queries and each query once for a tile of rows, in pieces of 16
// and 4 bytes: a block finds the rest of their sectors in L1 later, up to 700 dimensions. Writes 8
// B per row and query. Arithmetic per row and query: one fp64 FMA per dimension and 31 additions,
// at 64 per clock and SM. 5,000 x 384, 1,024 queries: 143 us at 1.76 GHz. Shared memory: 3
// wavefronts for 8 FMAs of a warp, 3/4 of what it delivers meanwhile. Requires: row_begin % 4 == 0,
// or listed rows. Steps, for each accumulator of the canonical sum: 1 its dimensions of rows and
// queries to shared memory as fp64, while those before are used; 2 sums; 3 the tree. At the end 4
// score and key.
template <typename Row, bool kL2, int kTile>
__global__ void __launch_bounds__(ScanTileThreads(kTile), kTile == 64 ? 1 : 4)
    ScanTileKernel(const __grid_constant__ ScanArgs args) {
  constexpr int kThreads = ScanTileThreads(kTile);
  constexpr int kQuads = 4;  // of each row and query in shared memory
  constexpr int kSteps = kQuads * kLaneDims;
  __shared__ __align__(16) double row_values[2][kSteps][kTile];
  __shared__ __align__(16) double query_values[2][kSteps][kTile];
  const RowShape shape = args.rows.shape;
  const int thread = static_cast<int>(threadIdx.x);
  const int quads_count = shape.full_blocks + (shape.tail_words > 0 ? 1 : 0);
  const int parts = (quads_count + kQuads - 1) / kQuads;  // of an accumulator's dimensions
  const int loads = score::kAccumulators * parts;
  const uint32_t first_row = args.row_begin + blockIdx.x * kTile;
  const int first_query = static_cast<int>(blockIdx.y) * kTile;

  // What this thread copies: one row or query, quads `quad`, `quad` + kQuadStep, ...
  constexpr int kSide = kThreads / 2;          // threads that copy rows; the others copy queries
  constexpr int kQuadStep = kSide / kTile;     // at least 1
  constexpr int kCopies = kQuads / kQuadStep;  // quads of a thread
  static_assert(kSide % kTile == 0 && kQuads % kQuadStep == 0);
  const bool copies_row = thread < kSide;
  const int column = thread % kTile;
  const int quad = thread % kSide / kTile;
  const char* row = nullptr;
  const float* query = nullptr;
  if (copies_row) {
    const uint32_t index = min(first_row + static_cast<uint32_t>(column), args.row_end - 1);
    row = args.rows.row(args.listed.empty() ? index : args.listed.at(index));
  } else {
    const int index = min(first_query + column, args.queries_count - 1);
    query = args.queries + static_cast<int64_t>(index) * shape.dim;
  }
  typename Row::Quad row_quads[kCopies];
  uint4 query_quads[kCopies];
  const auto load = [&](int number) {
    const int lane = AccumulatorAt(number / parts);
    const int begin = number % parts * kQuads;
#pragma unroll
    for (int i = 0; i < kCopies; ++i) {
      const int at = begin + quad + i * kQuadStep;
      if (copies_row) {
        row_quads[i] = LoadLaneQuad<Row>(row, shape, at, lane);
      } else {
        query_quads[i] = LoadQueryQuad(query, shape, at, lane);
      }
    }
  };
  const auto store = [&](int buffer) {
#pragma unroll
    for (int i = 0; i < kCopies; ++i) {
      const int step = (quad + i * kQuadStep) * kLaneDims;
      if (copies_row) {
        row_values[buffer][step][column] = Row::template ValueOf<0>(row_quads[i]);
        row_values[buffer][step + 1][column] = Row::template ValueOf<1>(row_quads[i]);
        row_values[buffer][step + 2][column] = Row::template ValueOf<2>(row_quads[i]);
        row_values[buffer][step + 3][column] = Row::template ValueOf<3>(row_quads[i]);
      } else {
        query_values[buffer][step][column] = Float32Row::ValueOf<0>(query_quads[i]);
        query_values[buffer][step + 1][column] = Float32Row::ValueOf<1>(query_quads[i]);
        query_values[buffer][step + 2][column] = Float32Row::ValueOf<2>(query_quads[i]);
        query_values[buffer][step + 3][column] = Float32Row::ValueOf<3>(query_quads[i]);
      }
    }
  };

  // What this thread scores: rows r, r + 1, r + 16 and r + 17 for queries q and q + 1.
  constexpr int kWarpsOfRows = kTile / 32;
  const int warp = thread / kWarp;
  const int lane = thread % kWarp;
  const int my_row = warp % kWarpsOfRows * 32 + lane % 8 * 2;
  const int my_query = warp / kWarpsOfRows * 8 + lane / 8 * 2;
  constexpr int kSums = 8;
  PartialTree<kSums> tree;
  double sums[kSums] = {};
  load(0);
  store(0);
  __syncthreads();
  for (int number = 0; number < loads; ++number) {
    if (number + 1 < loads) load(number + 1);
    const int steps = min(kQuads, quads_count - number % parts * kQuads) * kLaneDims;
    const int buffer = number & 1;
    for (int begin = 0; begin < steps; begin += kLaneDims) {
#pragma unroll
      for (int j = 0; j < kLaneDims; ++j) {
        const double* const rows = &row_values[buffer][begin + j][my_row];
        const auto near = *reinterpret_cast<const double2*>(rows);
        const auto far = *reinterpret_cast<const double2*>(rows + 16);
        const auto both =
            *reinterpret_cast<const double2*>(&query_values[buffer][begin + j][my_query]);
        sums[0] = ScoreStep<kL2>(both.x, near.x, sums[0]);
        sums[1] = ScoreStep<kL2>(both.x, near.y, sums[1]);
        sums[2] = ScoreStep<kL2>(both.x, far.x, sums[2]);
        sums[3] = ScoreStep<kL2>(both.x, far.y, sums[3]);
        sums[4] = ScoreStep<kL2>(both.y, near.x, sums[4]);
        sums[5] = ScoreStep<kL2>(both.y, near.y, sums[5]);
        sums[6] = ScoreStep<kL2>(both.y, far.x, sums[6]);
        sums[7] = ScoreStep<kL2>(both.y, far.y, sums[7]);
      }
    }
    if ((number + 1) % parts == 0) {
      tree.Add(number / parts, sums);
      if (number + 1 < loads) {
#pragma unroll
        for (double& sum : sums) sum = 0.0;
      }
    }
    if (number + 1 < loads) store(buffer ^ 1);
    __syncthreads();
  }

  const bool cosine = !kL2 && args.metric == Metric::kCosine;
#pragma unroll
  for (int r = 0; r < 4; ++r) {
    const uint32_t index = first_row + static_cast<uint32_t>(my_row + r / 2 * 16 + r % 2);
    if (index >= args.row_end) continue;
    const uint32_t slot = args.listed.empty() ? index : args.listed.at(index);
    const RowProperties properties = LoadRowProperties(args, slot, cosine);
#pragma unroll
    for (int q = 0; q < 2; ++q) {
      const int of_query = first_query + my_query + q;
      if (of_query >= args.queries_count) continue;
      const double query_squared = cosine ? args.query_squared[of_query] : 1.0;
      const float score =
          FinishScore<kL2>(args.metric, sums[q * 4 + r], query_squared, properties.squared);
      args.keys[of_query * args.keys_pitch + (index - args.row_begin)] =
          properties.dead ? score::kNoKey : score::OrderKey(score, properties.rank);
    }
  }
}

// Returns the kernels of one row type, one for each tile.
template <typename Row, bool kL2>
ScanTileTable MakeScanTileTable() {
  return {ScanTileKernel<Row, kL2, kScanTiles[0]>, ScanTileKernel<Row, kL2, kScanTiles[1]>};
}

}  // namespace nearfield::gpu
