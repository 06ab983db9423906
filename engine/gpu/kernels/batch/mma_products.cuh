// Products of int8 codes on the tensor cores with mma.sync, for compute capability 7.5 and later.
// Source: PTX ISA, "Warp-level matrix instructions" (mma.m16n8k32 and m8n8k16, ldmatrix).
#pragma once

#include <cstdint>

#include "engine/cuda/warp.h"
#include "engine/gpu/kernels/batch/batch_tiles.cuh"

namespace nearfield::gpu {

inline constexpr int kMmaRows = 16;
inline constexpr int kMmaQueries = 8;
inline constexpr int kMmaBytes = 32;  // bytes of a code that one instruction multiplies

// Loads four matrices of 8 rows x 16 bytes from shared memory. Lane l gives the address of row l %
// 8 of matrix l / 8, and gets bytes 4 (l % 4) ... + 3 of row l / 4 of each.
__device__ __forceinline__ void LoadMatrices(uint32_t address, uint32_t (&parts)[4]) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];\n"
               : "=r"(parts[0]), "=r"(parts[1]), "=r"(parts[2]), "=r"(parts[3])
               : "r"(address)
               : "memory");
}

// Loads bytes 32 `part` ... + 31 of 16 codes from slices at `slices` in shared memory.
// kRows: parts[i] of lane l: row l / 4 + 8 (i % 2), bytes 16 (i / 2) + 4 (l % 4) ... + 3.
// Else: parts[i] of lane l: query l / 4 + 8 (i / 2), bytes 16 (i % 2) + 4 (l % 4) ... + 3.
template <bool kRows>
__device__ __forceinline__ void LoadCodes(uint32_t slices, int part, uint32_t (&parts)[4]) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int group = kRows ? lane / 8 % 2 : lane / 16;  // of eight codes
  const int half = kRows ? lane / 16 : lane / 8 % 2;   // of the 32 bytes
  LoadMatrices(slices + ChunkOffset(group * 8 + lane % 8, 2 * part + half), parts);
}

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
__device__ __forceinline__ void AddProduct8(int32_t& sum0, int32_t& sum1, uint32_t row,
                                            uint32_t query) {
  asm volatile("mma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32 {%0, %1}, {%2}, {%3}, {%0, %1};\n"
               : "+r"(sum0), "+r"(sum1)
               : "r"(row), "r"(query));
}
#endif

// sums += 16 rows x 8 queries over 32 bytes. rows: of LoadCodes<true>; queries: two parts of one
// half of LoadCodes<false>. sums[i] of lane l: row l / 4 + 8 (i / 2), query 2 (l % 4) + i % 2.
__device__ __forceinline__ void AddProducts(int32_t* sums, const uint32_t (&rows)[4],
                                            uint32_t queries0, uint32_t queries1) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
  AddProduct8(sums[0], sums[1], rows[0], queries0);
  AddProduct8(sums[2], sums[3], rows[1], queries0);
  AddProduct8(sums[0], sums[1], rows[2], queries1);
  AddProduct8(sums[2], sums[3], rows[3], queries1);
#else
  asm volatile(
      "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "{%8, %9}, {%0, %1, %2, %3};\n"
      : "+r"(sums[0]), "+r"(sums[1]), "+r"(sums[2]), "+r"(sums[3])
      : "r"(rows[0]), "r"(rows[1]), "r"(rows[2]), "r"(rows[3]), "r"(queries0), "r"(queries1));
#endif
}

}  // namespace nearfield::gpu
