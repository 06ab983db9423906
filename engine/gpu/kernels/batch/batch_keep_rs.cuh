// Keeps the rows that may reach a threshold, for the scan "rs" (queries in registers, rows in
// shared memory). A warpgroup's sums are 64 queries x 64 rows here; a thread holds those of two
// queries and 16 rows of each.
#pragma once

#include <cstdint>

#include "engine/gpu/kernels/batch/batch.h"
#include "engine/gpu/kernels/batch/batch_keep.cuh"
#include "engine/gpu/kernels/batch/warpgroup_products.cuh"

namespace nearfield::gpu {

inline constexpr int kRsThreads = 2 * kWarpgroup;
inline constexpr int kRsQueries = 2 * kProductRows;  // per block

using RsSums = int32_t[kProductRows / 2];

// sums (+)= 64 queries x 64 rows over 32 bytes, with the queries' codes in registers.
// codes[i] of lane l in warp w of the group: query 16 w + l / 4 + 8 (i mod 2), bytes
// 16 (i / 2) + 4 (l mod 4) ... + 3.
// sums[4 j + i]: query 16 w + l / 4 + 8 (i / 2), row 8 j + 2 (l mod 4) + i mod 2.
__device__ __forceinline__ void AddProducts(RsSums& sums, const uint32_t (&codes)[4], uint64_t rows,
                                            bool keep) {
  asm volatile(
      "{ .reg .pred p; setp.ne.b32 p, %37, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n64k32.s32.s8.s8 {"
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15,"
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
      "}, {%32, %33, %34, %35}, %36, p; }\n"
      : "+r"(sums[0]), "+r"(sums[1]), "+r"(sums[2]), "+r"(sums[3]), "+r"(sums[4]), "+r"(sums[5]),
        "+r"(sums[6]), "+r"(sums[7]), "+r"(sums[8]), "+r"(sums[9]), "+r"(sums[10]), "+r"(sums[11]),
        "+r"(sums[12]), "+r"(sums[13]), "+r"(sums[14]), "+r"(sums[15]), "+r"(sums[16]),
        "+r"(sums[17]), "+r"(sums[18]), "+r"(sums[19]), "+r"(sums[20]), "+r"(sums[21]),
        "+r"(sums[22]), "+r"(sums[23]), "+r"(sums[24]), "+r"(sums[25]), "+r"(sums[26]),
        "+r"(sums[27]), "+r"(sums[28]), "+r"(sums[29]), "+r"(sums[30]), "+r"(sums[31])
      : "r"(codes[0]), "r"(codes[1]), "r"(codes[2]), "r"(codes[3]), "l"(rows),
        "r"(static_cast<int>(keep)));
}

// Compiler barrier after wgmma.wait_group: keeps reads of the accumulators from moving above the
// wait.
__device__ __forceinline__ void FenceSums(RsSums& sums) {
#pragma unroll
  for (int32_t& sum : sums) asm volatile("" : "+r"(sum)::"memory");
}

// The two queries of a thread.
struct RsQueries {
  int first_of_block;
  int count;  // queries of the batch

  __device__ __forceinline__ int InBlock(int i) const {
    return static_cast<int>(threadIdx.x) / kWarp * 16 + static_cast<int>(threadIdx.x) % kWarp / 4 +
           8 * i;
  }
  __device__ __forceinline__ int At(int i) const { return first_of_block + InBlock(i); }
  __device__ __forceinline__ bool Has(int i) const { return At(i) < count; }
};

// Compares bounds with thresholds for a thread's two queries. All terms are divided by t1, so that
// a sum is multiplied only once. The result is the sign of
//   c s + residual (r + ratio m) - of_squared_norm n - reach
// where both queries share the larger ratio. It lets through every row that QueryTerms would, and a
// few more: each term is increased by 2^-19 of itself and `reach` is lowered by what underflows,
// which together exceed all roundings. A query whose terms cannot be divided lets every row
// through, and so does a NaN. Source: engine/DESIGN.md, "Certified bound", step 11.
struct ReachTerms {
  float residual[2];
  float ratio;
  float of_squared_norm[2];
  float reach[2];

  __device__ ReachTerms(const RsQueries& queries, const SharedQueries<kRsQueries>& of_block)
      : ratio(0) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      Set(i, of_block.terms[queries.InBlock(i)], of_block.alive[queries.InBlock(i)]);
    }
  }

  // Returns the rest for rows with residual + ratio * norm <= slack_max and n >= norm_min.
  __device__ __forceinline__ float Rest(int i, float slack_max, float norm_min) const {
    const float rest = fmaf(residual[i], slack_max, fmaf(-of_squared_norm[i], norm_min, -reach[i]));
    return fminf(rest, score::FloatFromBits(0x7f800000u));  // maps NaN to +inf
  }

 private:
  __device__ void Set(int i, const QueryTerms& of, bool alive) {
    constexpr float kMore = 1.0f + 0x1p-19f;
    residual[i] = __fdiv_ru(__fmul_ru(of.of_residual, kMore), of.scale);
    const float lower = __fsub_rd(of.reach, __fmul_ru(fabsf(of.reach), 0x1p-19f));
    reach[i] = __fsub_rd(__fdiv_rd(lower, of.scale), 0x1p-126f);
    of_squared_norm[i] = __fdiv_rd(1.0f - 0x1p-19f, of.scale);
    if (residual[i] >= 0x1p-20f && residual[i] <= 0x1p20f && of.scale >= 0x1p-126f) {
      ratio = fmaxf(ratio, __fdiv_ru(__fmul_ru(of.of_norm, kMore), of.of_residual));
    } else {
      residual[i] = 1;
      of_squared_norm[i] = 0;
      reach[i] = score::MinusInfinity();
    }
    // Only a row without a finite bound reaches the threshold of a query that is not wanted.
    if (!alive) reach[i] = score::FloatFromBits(0x7f800000u);
  }
};

// A tile of rows: its bounds, its first row index, and one bit per absent row
// (TileLocation::Absent).
struct RsTile {
  const bound::RowBound* bounds;  // in shared memory
  uint32_t first_row_index;
  uint64_t absent;
};

inline constexpr int kQuadsOfTile = kProductRows / 8;

// The terms of two adjacent rows in the comparison. Both rows share the larger slack.
struct PairTerms {
  float scales[2];
  float rests[2];  // of each query

  __device__ __forceinline__ PairTerms(const ReachTerms& reach, const RsTile& tile, int row) {
    const bound::RowBound bounds[2] = {tile.bounds[row], tile.bounds[row + 1]};
    const float slack = fmaf(reach.ratio, fmaxf(bounds[0].norm, bounds[1].norm),
                             fmaxf(bounds[0].residual, bounds[1].residual));
    const float squared_norm_lower =
        fminf(bounds[0].squared_norm_lower, bounds[1].squared_norm_lower);
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      scales[i] = bounds[i].scale;
      rests[i] = reach.Rest(i, slack, squared_norm_lower);
    }
  }

  // Returns a value whose sign bit is set if the sum does not reach the threshold.
  __device__ __forceinline__ uint32_t Over(int32_t sum, int i) const {
    return __float_as_uint(fmaf(static_cast<float>(sum), scales[i % 2], rests[i / 2]));
  }
};

// Returns one bit per quad of sums, set if one of the four may reach its query's threshold.
template <bool kWhole>
__device__ __forceinline__ uint32_t QuadsThatReach(const RsSums& sums, const ReachTerms& reach,
                                                   const RsTile& tile, int first_row) {
  constexpr uint32_t kSign = 0x80000000u;
  uint32_t below = 0;
#pragma unroll
  for (int j = kQuadsOfTile - 1; j >= 0; --j) {
    const int row = first_row + 8 * j;
    const PairTerms pair(reach, tile, row);
    uint32_t signs = kSign;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      uint32_t over = pair.Over(sums[4 * j + i], i);
      if constexpr (!kWhole) over = (tile.absent >> (row + i % 2) & 1) != 0 ? kSign : over;
      signs &= over;
    }
    below = __funnelshift_l(signs, below, 1);
  }
  return ~below & ((1u << kQuadsOfTile) - 1);
}

// Adds the rows of a tile that may reach their query's threshold to `list`. Compares all sums first
// and sets one mask bit per quad of sums. Few bits are set, so the rest is a loop, which takes no
// space in the instruction cache.
__device__ __forceinline__ void KeepSomeRows(const RsSums& sums, const ReachTerms& reach,
                                             const SharedQueries<kRsQueries>& of_block,
                                             const RsQueries& queries, const RsTile& tile,
                                             SurvivorList& list) {
  const int first_row = 2 * (static_cast<int>(threadIdx.x) % 4);
  uint32_t quads = tile.absent == 0 ? QuadsThatReach<true>(sums, reach, tile, first_row)
                                    : QuadsThatReach<false>(sums, reach, tile, first_row);
  quads = WarpOr(quads);
#pragma unroll 1
  for (; quads != 0; quads &= quads - 1) {
    const int j = __ffs(static_cast<int>(quads)) - 1;
    int32_t quad[4];
    TakeQuad<0, kQuadsOfTile>(sums, j, quad);
    const int row = first_row + 8 * j;
    const PairTerms pair(reach, tile, row);
    // A row with a bound of +inf also reaches the threshold of a query that is not wanted.
    uint32_t passing = (of_block.alive[queries.InBlock(0)] ? 3u : 0u) |
                       (of_block.alive[queries.InBlock(1)] ? 12u : 0u);
#pragma unroll
    for (int i = 0; i < 4; ++i) passing &= ~(pair.Over(quad[i], i) >> 31 << i);
    // Expand the two rows' bits to both queries.
    if (tile.absent != 0) passing &= ~((static_cast<uint32_t>(tile.absent >> row) & 3u) * 5u);
    // A lane rarely has two survivors.
    for (;;) {
      const uint32_t lanes = __ballot_sync(kFullWarp, passing != 0);
      if (lanes == 0) break;
      const int i = __ffs(static_cast<int>(passing)) - 1;
      const int32_t sum = i == 0 ? quad[0] : i == 1 ? quad[1] : i == 2 ? quad[2] : quad[3];
      const int query = queries.InBlock(i < 2 ? 0 : 1);
      const float upper = UpperOf(sum, tile.bounds[row + (i & 1)], of_block.terms[query]);
      list.Add(lanes, {tile.first_row_index + static_cast<uint32_t>(row + (i & 1)),
                       WithSquaredNorm(upper, of_block.squared_norm_lower[query]),
                       static_cast<uint32_t>(queries.first_of_block + query)});
      passing &= passing - 1;
    }
  }
}

}  // namespace nearfield::gpu
