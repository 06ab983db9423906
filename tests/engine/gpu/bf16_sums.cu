#include "tests/engine/gpu/bf16_sums.h"

#include <cstdint>

#include "engine/gpu/kernels/certified/warpgroup_bf16_products.cuh"

namespace nearfield::gpu {
namespace {

constexpr int kPieces = kCodeLineBytes / 16;
static_assert(kSumsRows == kProductRows && kSumsElements * 2 == kCodeLineBytes);

// One line of 128 bytes of each vector, where the products look for it.
__device__ void TakeLine(const uint16_t* vectors, int count, int dimension, int line,
                         unsigned char* to) {
  for (int i = static_cast<int>(threadIdx.x); i < count * kPieces; i += kWarpgroup) {
    const int vector = i / kPieces;
    const int piece = i % kPieces;
    *reinterpret_cast<uint4*>(to + PieceOffset(vector, piece)) = *reinterpret_cast<const uint4*>(
        vectors + static_cast<int64_t>(vector) * dimension + line * kSumsElements + piece * 8);
  }
}

// All sums, by one warpgroup. Grid 1, block 128. Reads everything once.
__global__ void Bf16SumsKernel(const uint16_t* rows, const uint16_t* queries, int dimension,
                               float* out) {
  __shared__ __align__(1024) unsigned char row_lines[kSumsRows * kCodeLineBytes];
  __shared__ __align__(1024) unsigned char query_lines[kSumsQueries * kCodeLineBytes];
  float sums[kSumsQueries / 2];
  for (int line = 0; line < dimension / kSumsElements; ++line) {
    TakeLine(rows, kSumsRows, dimension, line, row_lines);
    TakeLine(queries, kSumsQueries, dimension, line, query_lines);
    asm volatile("fence.proxy.async.shared::cta;\n" ::: "memory");
    __syncthreads();
    BeginProducts();
#pragma unroll
    for (int part = 0; part < kCodeLineBytes / kProductBytes; ++part) {
      Bf16Products<kSumsQueries>::Add(
          sums, OperandAt(SharedAddress(row_lines) + part * kProductBytes),
          OperandAt(SharedAddress(query_lines) + part * kProductBytes), line > 0 || part > 0);
    }
    CommitProducts();
    WaitProducts<0>();
    __syncthreads();
  }
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
  for (int j = 0; j < kSumsQueries / 2; ++j) {
    const int row = 16 * warp + lane / 4 + 8 * (j / 2 % 2);
    const int query = j / 4 * 8 + 2 * (lane % 4) + j % 2;
    out[row * kSumsQueries + query] = sums[j];
  }
}

}  // namespace

cudaError_t LaunchBf16Sums(const uint16_t* rows, const uint16_t* queries, int dimension,
                           float* sums) {
  void* parameters[] = {&rows, &queries, &dimension, &sums};
  return cudaLaunchKernel(reinterpret_cast<const void*>(Bf16SumsKernel), dim3(1), dim3(kWarpgroup),
                          parameters, 0, nullptr);
}

}  // namespace nearfield::gpu
