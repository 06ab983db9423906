#include "engine/topk/row_order.h"

#include <cub/block/block_scan.cuh>

#include "engine/topk/score_rows.cuh"

namespace nearfield::gpu {
namespace {

constexpr uint32_t kThreads = 1024;
using Scan = cub::BlockScan<uint32_t, kThreads>;

__device__ uint32_t LengthOf(const ScoreRows& rows, int64_t row) {
  return BoundsOf(rows.row_begin, rows.row_end, rows.n, row).size;
}

// Lengths within an eighth of a power of two share a class. Class 0 has the longest.
constexpr uint32_t kClasses = 512;
__device__ uint32_t ClassOf(uint32_t length) {
  constexpr uint32_t kOne = 0x3f800000u >> 20;
  const uint32_t high = __float_as_uint(__uint2float_rz(length)) >> 20;
  return kClasses - 1 - (length == 0 ? 0 : high - kOne + 1);
}

// Orders rows by length, longest first.
// Grid 1, block 1,024.
// Reads the bounds of each row twice (8 B, the second time from L1), writes 4 B per row. 1,024
// rows: about 2 us, most of it latency.
// Steps: a counting sort by class of length.
// Source: longest processing time first: Graham, "Bounds on multiprocessing timing anomalies", SIAM
// J. Appl. Math. 1969.
__global__ void __launch_bounds__(kThreads)
    RowOrderKernel(const __grid_constant__ ScoreRows rows, uint32_t batch, uint32_t* order) {
  __shared__ uint32_t places[kClasses];
  __shared__ typename Scan::TempStorage scan;
  if (threadIdx.x < kClasses) places[threadIdx.x] = 0;
  __syncthreads();
  for (uint32_t row = threadIdx.x; row < batch; row += kThreads) {
    atomicAdd(&places[ClassOf(LengthOf(rows, row))], 1u);
  }
  __syncthreads();
  uint32_t begin = threadIdx.x < kClasses ? places[threadIdx.x] : 0;
  Scan(scan).ExclusiveSum(begin, begin);
  if (threadIdx.x < kClasses) places[threadIdx.x] = begin;
  __syncthreads();
  for (uint32_t row = threadIdx.x; row < batch; row += kThreads) {
    order[atomicAdd(&places[ClassOf(LengthOf(rows, row))], 1u)] = row;
  }
}

}  // namespace

cudaError_t LaunchRowOrder(const ScoreRows& rows, int64_t batch, uint32_t* order,
                           cudaStream_t stream) {
  RowOrderKernel<<<1, kThreads, 0, stream>>>(rows, static_cast<uint32_t>(batch), order);
  return cudaGetLastError();
}

}  // namespace nearfield::gpu
