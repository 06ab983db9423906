// Products of int8 codes on the tensor cores: wgmma, with both operands in shared memory.
// Source: PTX ISA, "Asynchronous warpgroup level matrix instructions". Needs sm_90a.
#pragma once

#include <cstdint>

#include "engine/gpu/kernels/batch/batch_tiles.cuh"

namespace nearfield::gpu {

inline constexpr int kWarpgroup = 128;    // threads
inline constexpr int kProductRows = 64;   // rows that a warpgroup multiplies together
inline constexpr int kProductBytes = 32;  // bytes of a code that one instruction multiplies

// Returns the wgmma descriptor of the slices at `address` in shared memory: a multiple of 1,024,
// plus 32 per step inside the slices. Eight slices are contiguous; the next eight follow `stride`
// bytes after their start, a multiple of 1,024.
__device__ __forceinline__ uint64_t OperandAt(uint32_t address, int stride = 1024) {
  constexpr uint64_t kExchange128 = uint64_t{1} << 62;
  return kExchange128 | static_cast<uint64_t>(stride >> 4) << 32 | (uint64_t{1} << 16) |
         ((address & 0x3ffffu) >> 4);
}

// Call before the first product after other code has accessed the registers of the sums.
__device__ __forceinline__ void BeginProducts() {
  asm volatile("wgmma.fence.sync.aligned;\n" ::: "memory");
}
// Blocks until at most `kPending` groups of products are in flight.
template <int kPending>
__device__ __forceinline__ void WaitProducts() {
  asm volatile("wgmma.wait_group.sync.aligned %0;\n" ::"n"(kPending) : "memory");
}
// Ends a group of products.
__device__ __forceinline__ void CommitProducts() {
  asm volatile("wgmma.commit_group.sync.aligned;\n" ::: "memory");
}

// sums (+)= rows x queries over 32 bytes: 64 rows by kQueries. keep: false if the sums begin at 0.
// sums[4 j + i] of lane l in warp w of the group: row 16 w + l / 4 + 8 (i / 2), query
// 8 j + 2 (l mod 4) + i mod 2.
template <int kQueries>
struct CodeProducts;

template <>
struct CodeProducts<16> {
  __device__ __forceinline__ static void Add(int32_t (&sums)[8], uint64_t rows, uint64_t queries,
                                             bool keep) {
    asm volatile(
        "{ .reg .pred p; setp.ne.b32 p, %10, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n16k32.s32.s8.s8 {"
        "%0, %1, %2, %3, %4, %5, %6, %7"
        "}, %8, %9, p; }\n"
        : "+r"(sums[0]), "+r"(sums[1]), "+r"(sums[2]), "+r"(sums[3]), "+r"(sums[4]), "+r"(sums[5]),
          "+r"(sums[6]), "+r"(sums[7])
        : "l"(rows), "l"(queries), "r"(static_cast<int>(keep)));
  }
};

template <>
struct CodeProducts<32> {
  __device__ __forceinline__ static void Add(int32_t (&sums)[16], uint64_t rows, uint64_t queries,
                                             bool keep) {
    asm volatile(
        "{ .reg .pred p; setp.ne.b32 p, %18, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n32k32.s32.s8.s8 {"
        "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15"
        "}, %16, %17, p; }\n"
        : "+r"(sums[0]), "+r"(sums[1]), "+r"(sums[2]), "+r"(sums[3]), "+r"(sums[4]), "+r"(sums[5]),
          "+r"(sums[6]), "+r"(sums[7]), "+r"(sums[8]), "+r"(sums[9]), "+r"(sums[10]),
          "+r"(sums[11]), "+r"(sums[12]), "+r"(sums[13]), "+r"(sums[14]), "+r"(sums[15])
        : "l"(rows), "l"(queries), "r"(static_cast<int>(keep)));
  }
};

template <>
struct CodeProducts<64> {
  __device__ __forceinline__ static void Add(int32_t (&sums)[32], uint64_t rows, uint64_t queries,
                                             bool keep) {
    asm volatile(
        "{ .reg .pred p; setp.ne.b32 p, %34, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n64k32.s32.s8.s8 {"
        "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15,"
        "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
        "}, %32, %33, p; }\n"
        : "+r"(sums[0]), "+r"(sums[1]), "+r"(sums[2]), "+r"(sums[3]), "+r"(sums[4]), "+r"(sums[5]),
          "+r"(sums[6]), "+r"(sums[7]), "+r"(sums[8]), "+r"(sums[9]), "+r"(sums[10]),
          "+r"(sums[11]), "+r"(sums[12]), "+r"(sums[13]), "+r"(sums[14]), "+r"(sums[15]),
          "+r"(sums[16]), "+r"(sums[17]), "+r"(sums[18]), "+r"(sums[19]), "+r"(sums[20]),
          "+r"(sums[21]), "+r"(sums[22]), "+r"(sums[23]), "+r"(sums[24]), "+r"(sums[25]),
          "+r"(sums[26]), "+r"(sums[27]), "+r"(sums[28]), "+r"(sums[29]), "+r"(sums[30]),
          "+r"(sums[31])
        : "l"(rows), "l"(queries), "r"(static_cast<int>(keep)));
  }
};

template <>
struct CodeProducts<128> {
  __device__ __forceinline__ static void Add(int32_t (&sums)[64], uint64_t rows, uint64_t queries,
                                             bool keep) {
    asm volatile(
        "{ .reg .pred p; setp.ne.b32 p, %66, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n128k32.s32.s8.s8 {"
        "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15,"
        "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31,"
        "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47,"
        "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
        "}, %64, %65, p; }\n"
        : "+r"(sums[0]), "+r"(sums[1]), "+r"(sums[2]), "+r"(sums[3]), "+r"(sums[4]), "+r"(sums[5]),
          "+r"(sums[6]), "+r"(sums[7]), "+r"(sums[8]), "+r"(sums[9]), "+r"(sums[10]),
          "+r"(sums[11]), "+r"(sums[12]), "+r"(sums[13]), "+r"(sums[14]), "+r"(sums[15]),
          "+r"(sums[16]), "+r"(sums[17]), "+r"(sums[18]), "+r"(sums[19]), "+r"(sums[20]),
          "+r"(sums[21]), "+r"(sums[22]), "+r"(sums[23]), "+r"(sums[24]), "+r"(sums[25]),
          "+r"(sums[26]), "+r"(sums[27]), "+r"(sums[28]), "+r"(sums[29]), "+r"(sums[30]),
          "+r"(sums[31]), "+r"(sums[32]), "+r"(sums[33]), "+r"(sums[34]), "+r"(sums[35]),
          "+r"(sums[36]), "+r"(sums[37]), "+r"(sums[38]), "+r"(sums[39]), "+r"(sums[40]),
          "+r"(sums[41]), "+r"(sums[42]), "+r"(sums[43]), "+r"(sums[44]), "+r"(sums[45]),
          "+r"(sums[46]), "+r"(sums[47]), "+r"(sums[48]), "+r"(sums[49]), "+r"(sums[50]),
          "+r"(sums[51]), "+r"(sums[52]), "+r"(sums[53]), "+r"(sums[54]), "+r"(sums[55]),
          "+r"(sums[56]), "+r"(sums[57]), "+r"(sums[58]), "+r"(sums[59]), "+r"(sums[60]),
          "+r"(sums[61]), "+r"(sums[62]), "+r"(sums[63])
        : "l"(rows), "l"(queries), "r"(static_cast<int>(keep)));
  }
};

}  // namespace nearfield::gpu
