// The scan of codes for one query: an upper bound of every row's score.
#pragma once

#include <cstdint>

#include "engine/bound/certified_bound.h"
#include "engine/cuda/warp.h"
#include "engine/gpu/kernels/primitives/dot16.cuh"
#include "engine/gpu/kernels/primitives/row_elements.cuh"
#include "engine/gpu/kernels/single/one_query.h"
#include "engine/score/row_terms.h"

namespace nearfield::gpu {

inline constexpr int kGroupLanes = 8;  // lanes that share a row
inline constexpr int kGroupRows = kWarp / kGroupLanes;

// The row with the largest bound among the rows of a group of lanes.
struct BestRow {
  float upper = 0;
  uint32_t row_index = 0xffffffffu;  // none
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

// Adds slices [begin, begin + 8 / kRows) of each row. Each lane loads one chunk per slice, eight in
// all; all loads are issued before the first is used. chunks: this lane's chunk of each row's first
// slice.
template <int kRows>
__device__ __forceinline__ void AddSlices(const char* const (&chunks)[kRows], int begin, int slices,
                                          const SharedCodes& query, CodeSums<kRows>& sums) {
  constexpr int kSteps = 8 / kRows;
  const int lane = static_cast<int>(threadIdx.x) % kGroupLanes;
  uint4 codes[kRows][kSteps];
#pragma unroll
  for (int step = 0; step < kSteps; ++step) {
    if (begin + step >= slices) break;
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      LoadStreaming(reinterpret_cast<const uint4*>(chunks[r] + (begin + step) * kSwizzleAtomBytes),
                    codes[r][step]);
    }
  }
#pragma unroll
  for (int step = 0; step < kSteps; ++step) {
    if (begin + step >= slices) break;
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

// Returns the products of one row's code with both codes of the query, by a group of lanes: in its
// first lane. slot: of the row of this group.
__device__ __forceinline__ RowSums ProductsOfRow(const CodesView& codes, uint32_t slot,
                                                 const SharedCodes& query) {
  const int lane = static_cast<int>(threadIdx.x) % kGroupLanes;
  const char* const chunks[1] = {codes.chunk(slot, lane)};
  CodeSums<1> sums;
  const int slices = codes.code_bytes / kSliceBytes;
  for (int at = 0; at < slices; at += 8) AddSlices(chunks, at, slices, query, sums);
  return SumsOfMyRow(sums);
}

// Returns bounds of the score of one row from both its codes, by a group of lanes: in its first
// lane. All lanes of the warp call it. Requires: the row's generation has second codes.
__device__ __forceinline__ bound::ScoreRange RangeOfRow(const CodedGeneration& generation,
                                                        uint32_t slot, const SharedCodes& query,
                                                        const bound::QueryBound& query_bound) {
  const CodesView second = generation.codes.second();
  const RowSums of_first = ProductsOfRow(generation.codes, slot, query);
  const RowSums of_second = ProductsOfRow(second, slot, query);
  return bound::RangeOfScore(*generation.codes.bound(slot), *second.bound(slot), query_bound,
                             bound::CodeProduct(query_bound, of_first.first, of_first.second),
                             bound::CodeProduct(query_bound, of_second.first, of_second.second));
}

// Writes a bound of every row's final score to args.uppers. A warp processes 4 * kRows rows with
// consecutive indices at a time, each group of 8 lanes kRows of them. Each lane returns the best of
// the rows that it finished.
template <int kRows>
__device__ BestRow ScanCodes(const OneQueryArgs& args, const SharedCodes& query,
                             const bound::QueryBound& query_bound) {
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
       begin < args.corpus.row_index_end; begin += uint64_t{warps} * kStepRows) {
    const auto row_index = static_cast<uint32_t>(begin);
    while (g + 1 < args.corpus.count && row_index >= args.corpus.generations[g + 1].rows_begin) ++g;
    const CodedGeneration& generation = args.corpus.generations[g];
    const uint32_t first_slot = row_index - generation.rows_begin;
    if (first_slot >= generation.rows_count) continue;  // indices without a row
    const uint32_t last_slot = generation.rows_count - 1;
    const uint32_t per_slab = generation.codes.rows_per_slab;
    const uint32_t slab = first_slot / per_slab;
    char* const base = generation.codes.slabs[slab];
    const int64_t code_bytes = generation.codes.code_bytes;
    const char* chunks[kRows];
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      const uint32_t slot =
          min(first_slot + static_cast<uint32_t>(r * kGroupRows + group), last_slot);
      chunks[r] = generation.codes.chunk_in(base, slot - slab * per_slab, in_group);
    }
    const uint32_t my_slot = first_slot + static_cast<uint32_t>(in_group * kGroupRows + group);
    const bool mine = in_group < kRows && my_slot <= last_slot;
    uint4 bound_bits = {};
    double sum_of_terms = 0;
    if (mine) {
      if (args.sums != nullptr) {
        sum_of_terms = __ldcg(args.sums + generation.rows_begin + my_slot);
      }
      LoadStreaming(reinterpret_cast<const uint4*>(base + per_slab * code_bytes) +
                        (my_slot - slab * per_slab),
                    bound_bits);
    }
    CodeSums<kRows> sums;
    const int slices = static_cast<int>(code_bytes / kSliceBytes);
    AddSlices(chunks, 0, slices, query, sums);
    if constexpr (kRows == 1) {
      for (int at = 8; at < slices; at += 8) AddSlices(chunks, at, slices, query, sums);
    }
    const RowSums products = SumsOfMyRow(sums);
    if (mine) {
      const bound::RowBound bound = {__uint_as_float(bound_bits.x), __uint_as_float(bound_bits.y),
                                     __uint_as_float(bound_bits.z), __uint_as_float(bound_bits.w)};
      float upper = bound::UpperScore(
          bound, query_bound, bound::CodeProduct(query_bound, products.first, products.second));
      if (args.sums != nullptr) {
        upper = score::FinalUpper(args.score_weight, upper, sum_of_terms);
      }
      const uint32_t my_row_index = generation.rows_begin + my_slot;
      __stcg(args.uppers + my_row_index, upper);
      if (upper > best.upper && !generation.tombstones.dead(my_slot)) best = {upper, my_row_index};
    }
  }
  return best;
}

}  // namespace nearfield::gpu
