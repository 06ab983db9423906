// The scan kernel, for every row type. Each row type is compiled in its own file, scan_<type>.cu.
#pragma once

#include <cstdint>
#include <utility>

#include "engine/gpu/kernels/primitives/row_elements.cuh"
#include "engine/gpu/kernels/primitives/score_step.cuh"
#include "engine/gpu/kernels/primitives/warp_tree.cuh"
#include "engine/gpu/kernels/row_scan/finish_key.cuh"
#include "engine/gpu/kernels/row_scan/scan.h"
#include "engine/gpu/kernels/row_scan/scan_table.h"
#include "engine/gpu/kernels/row_scan/tile_scan_kernel.cuh"

namespace nearfield::gpu {

// Copies the queries of this block's sub-tile to shared memory: fp64, zero-padded, in QueryPosition
// order.
template <int kQueries>
__device__ void StageQueries(const ScanArgs& args, int first_query, double* staged) {
  const RowShape shape = args.rows.shape;
  for (int query = 0; query < kQueries; ++query) {
    const bool present = first_query + query < args.queries_count;
    const float* source = args.queries + static_cast<int64_t>(first_query + query) * shape.dim;
    double* target = staged + static_cast<int64_t>(query) * shape.padded;
    for (int d = static_cast<int>(threadIdx.x); d < shape.padded; d += kScanThreads) {
      target[QueryPosition(shape, d)] =
          present && d < shape.dim ? static_cast<double>(source[d]) : 0.0;
    }
  }
}

// Adds two of a lane's four dimensions of one block, for all rows and queries. The
// dimensions ascend.
template <typename Row, bool kL2, int kQueries, int kPair>
__device__ void AccumulatePair(const typename Row::Quad (&quads)[kScanRows], const double2* queries,
                               int query_pitch, double (&sums)[kQueries * kScanRows]) {
  double even[kScanRows];
  double odd[kScanRows];
#pragma unroll
  for (int r = 0; r < kScanRows; ++r) {
    even[r] = Row::template ValueOf<2 * kPair>(quads[r]);
    odd[r] = Row::template ValueOf<2 * kPair + 1>(quads[r]);
  }
#pragma unroll
  for (int q = 0; q < kQueries; ++q) {
    const double2 value = queries[q * query_pitch + kPair * kWarp];
#pragma unroll
    for (int r = 0; r < kScanRows; ++r) {
      double& sum = sums[q * kScanRows + r];
      sum = ScoreStep<kL2>(value.y, odd[r], ScoreStep<kL2>(value.x, even[r], sum));
    }
  }
}

template <typename Quad>
__device__ void LoadRows(const Quad* (&source)[kScanRows], int offset, Quad (&quads)[kScanRows]) {
#pragma unroll
  for (int r = 0; r < kScanRows; ++r) LoadStreaming(source[r] + offset, quads[r]);
}

// kScanRows rows that a warp scores together.
struct ScanGroup {
  const ScanArgs& args;
  uint32_t first;  // the first of them

  // Returns the slot of row `r`; if there is no such row, the slot of another one.
  __device__ uint32_t Slot(int r) const {
    const uint32_t row = first + static_cast<uint32_t>(r);
    return args.listed.empty() ? row : args.listed.at(min(row, args.row_end - 1));
  }
  template <typename T>
  __device__ void Begin(const T* (&source)[kScanRows]) const {
    const char* const row = args.rows.row(Slot(0));
#pragma unroll
    for (int r = 0; r < kScanRows; ++r) {
      source[r] = reinterpret_cast<const T*>(args.listed.empty() ? row + r * args.rows.row_bytes
                                                                 : args.rows.row(Slot(r)));
    }
  }
};

// Accumulates the interleaved blocks of kScanRows rows. kDepth blocks of each row are in registers
// or in flight, and a buffer is loaded again as soon as it has been used.
template <typename Row, bool kL2, int kQueries, int kDepth>
__device__ void AccumulateBlocks(const ScanGroup& group, const double* staged,
                                 double (&sums)[kQueries * kScanRows]) {
  using Quad = typename Row::Quad;
  const RowShape shape = group.args.rows.shape;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const auto* pairs = reinterpret_cast<const double2*>(staged) + lane;
  const int query_pitch = shape.padded / 2;
  const Quad* source[kScanRows];
  group.Begin(source);
#pragma unroll
  for (int r = 0; r < kScanRows; ++r) source[r] += lane;
  Quad quads[kDepth][kScanRows];
#pragma unroll
  for (int depth = 0; depth < kDepth; ++depth) {
    if (depth < shape.full_blocks) LoadRows(source, depth * kWarp, quads[depth]);
  }
  for (int left = shape.full_blocks; left > 0; left -= kDepth) {
#pragma unroll
    for (int depth = 0; depth < kDepth; ++depth) {
      if (depth < left) {
        const double2* at = pairs + depth * (kBlockDims / 2);
        AccumulatePair<Row, kL2, kQueries, 0>(quads[depth], at, query_pitch, sums);
        AccumulatePair<Row, kL2, kQueries, 1>(quads[depth], at, query_pitch, sums);
      }
      if (depth + kDepth < left) LoadRows(source, (depth + kDepth) * kWarp, quads[depth]);
    }
    pairs += kDepth * (kBlockDims / 2);
#pragma unroll
    for (int r = 0; r < kScanRows; ++r) source[r] += kDepth * kWarp;
  }
}

// Accumulates the last 0 to 96 elements, in natural order: one element per lane and word.
template <typename Row, bool kL2, int kQueries>
__device__ void AccumulateTail(const ScanGroup& group, const double* staged,
                               double (&sums)[kQueries * kScanRows]) {
  const RowShape shape = group.args.rows.shape;
  if (shape.tail_words == 0) return;
  const typename Row::Element* source[kScanRows];
  group.Begin(source);
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  for (int word = 0; word < shape.tail_words; ++word) {
    const int position = shape.full_blocks * kBlockDims + word * kWarp + lane;
    double values[kScanRows];
#pragma unroll
    for (int r = 0; r < kScanRows; ++r) {
      values[r] = Row::Value(__ldg(source[r] + position));
    }
#pragma unroll
    for (int q = 0; q < kQueries; ++q) {
      const double value = staged[q * shape.padded + position];
#pragma unroll
      for (int r = 0; r < kScanRows; ++r) {
        double& sum = sums[q * kScanRows + r];
        sum = ScoreStep<kL2>(value, values[r], sum);
      }
    }
  }
}

// Scores rows [row_begin, row_end) for a tile of queries, canonically, and writes their order keys;
// kNoKey for dead rows.
// Grid (x, sub-tiles of kQueries queries), block 256: a warp owns 4 neighboring rows at a time and
// strides over the rows with all warps of its sub-tile; lane L accumulates the dimensions d mod 32
// == L in fp64.
// Reads rows * row_bytes (16-byte loads; 8 for 16-bit types) once per sub-tile, and 12 B of norm
// and rank per row. Writes 8 B per row and query. 1M x 1024 fp32, one query: 4.1 GB, so 0.90 ms at
// 4.53 TB/s.
// Arithmetic per fp32 element: one conversion (16 per clock and SM), and one fp64 FMA per query (64
// per clock and SM). At 4.53 TB/s, 4.9 elements per clock and SM arrive. They take 31% of the
// conversions, and 8% of the FMAs per query; 16-bit rows, 61% and 15%.
// Requires: row_begin % 4 == 0, queries 16-byte aligned in shared memory, ScanSharedBytes() of
// dynamic shared memory.
// Steps: 1 queries to shared memory, 2 the interleaved blocks of the rows, 3 tail, 4 tree over the
// lanes, 5 score and key by the lane that ends up with the sum.
template <typename Row, bool kL2, int kPolicy>
__global__ void __launch_bounds__(kScanThreads, kScanPolicies[kPolicy].blocks_per_sm)
    ScanKernel(const __grid_constant__ ScanArgs args) {
  constexpr int kQueries = kScanPolicies[kPolicy].queries;
  constexpr int kDepth = kScanPolicies[kPolicy].depth * 4 / Row::kBytes;
  constexpr int kSums = kQueries * kScanRows;
  constexpr int kLanesPerSum = kWarp / kSums;
  extern __shared__ double2 shared_queries[];
  double* staged = reinterpret_cast<double*>(shared_queries);
  const int first_query = static_cast<int>(blockIdx.y) * kQueries;
  StageQueries<kQueries>(args, first_query, staged);
  __syncthreads();

  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int my_sum = lane / kLanesPerSum;
  const int my_query = first_query + my_sum / kScanRows;
  const bool writes = lane % kLanesPerSum == 0 && my_query < args.queries_count;
  const bool cosine = !kL2 && args.metric == Metric::kCosine;
  constexpr uint32_t kWarps = kScanThreads / kWarp;
  const uint32_t groups = (args.row_end - args.row_begin + kScanRows - 1) / kScanRows;
  const uint32_t stride = gridDim.x * kWarps;
  // At most 2^30 groups and far fewer warps: the sum does not wrap.
  for (uint32_t group = blockIdx.x * kWarps + threadIdx.x / kWarp; group < groups;
       group += stride) {
    const ScanGroup rows = {args, args.row_begin + group * kScanRows};
    const uint32_t my_row = rows.first + my_sum % kScanRows;
    const bool counts = writes && my_row < args.row_end;
    // Loaded before the rows if registers allow, so that it costs no wait of its own.
    RowProperties properties;
    if (kQueries <= 2 && counts)
      properties = LoadRowProperties(args, rows.Slot(my_sum % kScanRows), cosine);
    double sums[kSums] = {};
    AccumulateBlocks<Row, kL2, kQueries, kDepth>(rows, staged, sums);
    AccumulateTail<Row, kL2, kQueries>(rows, staged, sums);
    const double sum = WarpTree(sums, lane);
    if (counts) {
      if (kQueries > 2) properties = LoadRowProperties(args, rows.Slot(my_sum % kScanRows), cosine);
      const double query_squared = cosine ? args.query_squared[my_query] : 1.0;
      uint64_t* keys = args.keys + static_cast<int64_t>(my_query) * args.keys_pitch;
      keys[my_row - args.row_begin] = FinishKey<kL2>(args.metric, sum, query_squared, properties);
    }
  }
}

template <typename Row, bool kL2, std::size_t... kPolicies>
ScanTable MakeScanTable(std::index_sequence<kPolicies...>) {
  return {.policies = {ScanKernel<Row, kL2, static_cast<int>(kPolicies)>...},
          .tile = TileScanKernel<Row, kL2>,
          .left = ScanLeftKernel<Row, kL2>};
}

// Returns the kernels of one row type.
template <typename Row, bool kL2>
ScanTable MakeScanTable() {
  return MakeScanTable<Row, kL2>(std::make_index_sequence<kScanPolicies.size()>());
}

}  // namespace nearfield::gpu
