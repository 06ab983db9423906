// The scan of codes for one query: an upper bound of every row's score.
#ifndef NEARFIELD_ENGINE_GPU_KERNELS_PRIMITIVES_CODE_SCAN_CUH_
#define NEARFIELD_ENGINE_GPU_KERNELS_PRIMITIVES_CODE_SCAN_CUH_

#include <cstdint>

#include "engine/bound/certified_bound.h"
#include "engine/gpu/kernels/primitives/dot16.cuh"
#include "engine/gpu/kernels/primitives/row_elements.cuh"
#include "engine/gpu/kernels/single/one_query.h"
#include "engine/topk/warp.h"

namespace nearfield::gpu {

inline constexpr int kGroupLanes = 8;  // lanes that share a row
inline constexpr int kGroupRows = kWarp / kGroupLanes;

// The row with the largest bound among the rows of a group of lanes.
struct BestRow {
  float upper = 0;
  uint32_t number = 0xffffffffu;  // none
};

// Both codes of the query in shared memory, padded with zeros to a whole step.
struct SharedCodes {
  const uint4* first = nullptr;
  const uint4* second = nullptr;
};

// Products of rows with the query's two codes.
template <int kRows>
struct CodeSums {
  int32_t first[kRows] = {};
  int32_t second[kRows] = {};
};
struct RowSums {
  int32_t first = 0;
  int32_t second = 0;
};

// Adds lines [begin, begin + 8 / kRows) of each row. Each lane loads one piece per line, eight in
// all; all loads are issued before the first is used. pieces: this lane's piece of each row's first
// line.
template <int kRows>
__device__ __forceinline__ void AddLines(const char* const (&pieces)[kRows], int begin, int lines,
                                         const SharedCodes& query, CodeSums<kRows>& sums) {
  constexpr int kSteps = 8 / kRows;
  const int lane = static_cast<int>(threadIdx.x) % kGroupLanes;
  uint4 codes[kRows][kSteps];
#pragma unroll
  for (int step = 0; step < kSteps; ++step) {
    if (begin + step >= lines) break;
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      LoadStreaming(reinterpret_cast<const uint4*>(pieces[r] + (begin + step) * kCodeLineStride),
                    codes[r][step]);
    }
  }
#pragma unroll
  for (int step = 0; step < kSteps; ++step) {
    if (begin + step >= lines) break;
    const uint4 first = query.first[(begin + step) * kGroupLanes + lane];
    const uint4 second = query.second[(begin + step) * kGroupLanes + lane];
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      sums.first[r] = Dot16(codes[r][step], first, sums.first[r]);
      sums.second[r] = Dot16(codes[r][step], second, sums.second[r]);
    }
  }
}

// Sums over the lanes of a group. Lane r of the group returns the sums of row r.
template <int kRows>
__device__ __forceinline__ RowSums SumsOfMyRow(CodeSums<kRows>& sums) {
  const int lane = static_cast<int>(threadIdx.x) % kGroupLanes;
  RowSums mine;
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
#pragma unroll
    for (int step = kGroupLanes / 2; step > 0; step /= 2) {
      sums.first[r] += __shfl_xor_sync(kFullWarp, sums.first[r], step);
      sums.second[r] += __shfl_xor_sync(kFullWarp, sums.second[r], step);
    }
    if (lane == r) mine = {sums.first[r], sums.second[r]};
  }
  return mine;
}

// Writes a bound of every row to args.uppers. A warp processes 4 * kRows rows with consecutive
// numbers at a time, each group of 8 lanes kRows of them. Each lane returns the best of the rows
// that it finished.
template <int kRows>
__device__ BestRow ScanCodes(const OneQueryArgs& args, const SharedCodes& query,
                             const score::QueryBound& query_bound) {
  constexpr uint32_t kStepRows = kGroupRows * kRows;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int group = lane / kGroupLanes;
  const int in_group = lane % kGroupLanes;
  const uint32_t warps = gridDim.x * (kOneQueryThreads / kWarp);
  BestRow best;
  best.upper = score::MinusInfinity();
  int g = 0;
  for (uint64_t begin =
           uint64_t{blockIdx.x * (kOneQueryThreads / kWarp) + threadIdx.x / kWarp} * kStepRows;
       begin < args.corpus.numbers; begin += uint64_t{warps} * kStepRows) {
    const auto number = static_cast<uint32_t>(begin);
    while (g + 1 < args.corpus.count && number >= args.corpus.generations[g + 1].rows_begin) ++g;
    const CodedGeneration& generation = args.corpus.generations[g];
    const uint32_t first_slot = number - generation.rows_begin;
    if (first_slot >= generation.rows_count) continue;  // numbers without a row
    const uint32_t last_slot = generation.rows_count - 1;
    const uint32_t per_slab = generation.codes.rows_per_slab;
    const uint32_t slab = first_slot / per_slab;
    char* const base = generation.codes.slabs[slab];
    const int64_t code_bytes = generation.codes.code_bytes;
    const char* pieces[kRows];
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      const uint32_t slot =
          min(first_slot + static_cast<uint32_t>(r * kGroupRows + group), last_slot);
      pieces[r] = generation.codes.piece_in(base, slot - slab * per_slab, in_group);
    }
    const uint32_t my_slot = first_slot + static_cast<uint32_t>(in_group * kGroupRows + group);
    const bool mine = in_group < kRows && my_slot <= last_slot;
    uint4 bound_bits = {};
    if (mine) {
      LoadStreaming(reinterpret_cast<const uint4*>(base + per_slab * code_bytes) +
                        (my_slot - slab * per_slab),
                    bound_bits);
    }
    CodeSums<kRows> sums;
    const int lines = static_cast<int>(code_bytes / kCodeLineBytes);
    AddLines(pieces, 0, lines, query, sums);
    if constexpr (kRows == 1) {
      for (int at = 8; at < lines; at += 8) AddLines(pieces, at, lines, query, sums);
    }
    const RowSums products = SumsOfMyRow(sums);
    if (mine) {
      const score::RowBound bound = {__uint_as_float(bound_bits.x), __uint_as_float(bound_bits.y),
                                     __uint_as_float(bound_bits.z), __uint_as_float(bound_bits.w)};
      const float upper = score::UpperScore(
          bound, query_bound, score::CodeProduct(query_bound, products.first, products.second));
      const uint32_t my_number = generation.rows_begin + my_slot;
      __stcg(args.uppers + my_number, upper);
      if (upper > best.upper && !generation.tombstones.dead(my_slot)) best = {upper, my_number};
    }
  }
  return best;
}

}  // namespace nearfield::gpu

#endif  // NEARFIELD_ENGINE_GPU_KERNELS_PRIMITIVES_CODE_SCAN_CUH_
