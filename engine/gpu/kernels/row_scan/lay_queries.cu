// Queries as the scan of tiles reads them.
#include <cstdint>

#include "engine/gpu/kernels/primitives/warp_squared_norm.cuh"
#include "engine/gpu/kernels/row_scan/scan.h"

namespace nearfield::gpu {
namespace {

constexpr int kLayThreads = 256;

// Returns the dimension at a position of a row.
__device__ int DimensionAt(const RowShape& shape, int position) {
  const int block = position / kBlockDims;
  if (block >= shape.full_blocks) return position;
  const int inside = position % kBlockDims;
  return block * kBlockDims + inside % kLaneDims * kWarp + inside / kLaneDims;
}

// Grid (tiles of 64 queries, steps of 32 elements), block 256. Reads 4 B and writes 8 B per
// dimension and query; takes some microseconds.
__global__ void __launch_bounds__(kLayThreads)
    LayQueriesKernel(const __grid_constant__ LayQueriesArgs args) {
  const RowShape& shape = args.shape;
  const int first = static_cast<int>(blockIdx.x) * kScanTileQueries;
  const int step = static_cast<int>(blockIdx.y);
  const auto vector = [&](int query) {
    return args.queries + static_cast<int64_t>(query) * shape.dim;
  };
  constexpr int kPairs = kLaidGroups * kScanTileQueries * kLaidPairs;
  double2* const to = args.to.queries + (int64_t{blockIdx.x} * gridDim.y + blockIdx.y) * kPairs;
  for (int i = static_cast<int>(threadIdx.x); i < kPairs; i += kLayThreads) {
    const int group = i / (kScanTileQueries * kLaidPairs);
    const int query = i / kLaidPairs % kScanTileQueries;
    const int pair = LaidAt(query, group, i % kLaidPairs);  // LaidAt is its own inverse
    const int position = step * kWarp + (group * kLaidPairs + pair) * 2;
    const auto value_at = [&](int at) {
      const int d = DimensionAt(shape, at);
      if (first + query >= args.count || d >= shape.dim) return 0.0;
      return static_cast<double>(vector(first + query)[d]);
    };
    to[i] = {value_at(position), value_at(position + 1)};
  }
  if (step != 0) return;
  if (blockIdx.x == 0 && threadIdx.x == 0) {
    args.to.left->count = 0;
    args.to.left->blocks_done = 0;
  }
  for (int query = first + static_cast<int>(threadIdx.x) / kWarp;
       query < min(first + kScanTileQueries, args.count); query += kLayThreads / kWarp) {
    const double squared = WarpSquaredNorm(vector(query), shape.dim);
    if (threadIdx.x % kWarp != 0) continue;
    args.to.magnitudes[query] = args.metric == Metric::kL2 ? squared : sqrt(squared);
  }
}

}  // namespace

cudaError_t LaunchLayQueries(const LayQueriesArgs& args, cudaStream_t stream) {
  cudaLaunchConfig_t config = {};
  config.gridDim =
      dim3(static_cast<unsigned>((args.count + kScanTileQueries - 1) / kScanTileQueries),
           static_cast<unsigned>(args.shape.padded / kWarp));
  config.blockDim = dim3(kLayThreads);
  config.stream = stream;
  void* parameters[] = {const_cast<LayQueriesArgs*>(&args)};
  return cudaLaunchKernelExC(&config, reinterpret_cast<const void*>(LayQueriesKernel), parameters);
}

}  // namespace nearfield::gpu
