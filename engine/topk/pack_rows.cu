#include "engine/topk/pack_rows.h"

#include <algorithm>

#include "engine/topk/score_rows.cuh"

namespace nearfield::gpu {
namespace {

constexpr int kThreads = 256;
constexpr int64_t kScoresPerBlock = 4096;
constexpr int64_t kBlocksPerRowMax = 4096;

// Copies rows of scores that are `column_stride` apart.
// Grid (blocks per row, rows), block 256: the blocks of a row stride over it together.
// Reads each score (2 or 4 B, but a sector of 32 B if the stride is 16 B or more), and writes it.
// Steps: one, for every score.
// Source: none; a copy.
template <typename Raw>
__global__ void __launch_bounds__(kThreads)
    PackRowsKernel(const __grid_constant__ ScoreRows rows, int64_t column_stride, Raw* packed,
                   int32_t* lengths) {
  const int64_t row = blockIdx.y;
  const RowBounds bounds = BoundsOf(rows.row_begin, rows.row_end, rows.n, row);
  const Raw* const from = static_cast<const Raw*>(rows.scores) + row * rows.stride;
  Raw* const to = packed + row * rows.n;
  const int64_t step = int64_t{gridDim.x} * kThreads;
  for (int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x; i < bounds.size; i += step) {
    to[i] = from[(bounds.begin + i) * column_stride];
  }
  if (lengths != nullptr && blockIdx.x == 0 && threadIdx.x == 0) {
    lengths[row] = static_cast<int32_t>(bounds.size);
  }
}

}  // namespace

cudaError_t LaunchPackRows(const ScoreRows& rows, ScoreType type, int64_t batch,
                           int64_t column_stride, void* packed, int32_t* lengths,
                           cudaStream_t stream) {
  const int64_t blocks =
      std::clamp<int64_t>(rows.n / kScoresPerBlock, int64_t{1}, kBlocksPerRowMax);
  const dim3 grid(static_cast<unsigned>(blocks), static_cast<unsigned>(batch));
  if (BytesPerElement(type) == 2) {
    PackRowsKernel<<<grid, kThreads, 0, stream>>>(rows, column_stride,
                                                  static_cast<uint16_t*>(packed), lengths);
  } else {
    PackRowsKernel<<<grid, kThreads, 0, stream>>>(rows, column_stride,
                                                  static_cast<uint32_t*>(packed), lengths);
  }
  return cudaGetLastError();
}

}  // namespace nearfield::gpu
