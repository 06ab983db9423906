// The types of codes as a scan multiplies them: a piece of 16 bytes of a row with the two vectors
// of 16 bytes that the query has beside it.
#ifndef NEARFIELD_ENGINE_GPU_KERNELS_CERTIFIED_CODE_TYPES_CUH_
#define NEARFIELD_ENGINE_GPU_KERNELS_CERTIFIED_CODE_TYPES_CUH_

#include <cstdint>

#include "engine/gpu/kernels/codes/dot16.cuh"
#include "engine/score/bf16_bound.h"
#include "engine/score/certified_bound.h"

namespace nearfield::gpu {

// 16 codes of a row and 16 of each of the query's two codes: two exact products.
struct Int8Codes {
  using Sum = int32_t;
  static constexpr bool kTwoProducts = true;
  static constexpr bool kBf16 = false;
  __device__ __forceinline__ static void Add(const uint4& piece, const uint4& first,
                                             const uint4& second, Sum& of_first, Sum& of_second) {
    of_first = Dot16(piece, first, of_first);
    of_second = Dot16(piece, second, of_second);
  }
  __device__ __forceinline__ static float Product(const score::QueryBound& query, Sum first,
                                                  Sum second) {
    return score::CodeProduct(query, first, second);
  }
};

// 8 elements of a row; of the query's 8 the first four meet the lower half of the piece. One
// product in two parts, which are added at the end.
struct Bf16Codes {
  using Sum = float;
  static constexpr bool kTwoProducts = false;
  static constexpr bool kBf16 = true;
  // A word holds two elements; as the upper half of fp32 each is itself.
  __device__ __forceinline__ static Sum AddWord(uint32_t word, uint32_t even, uint32_t odd,
                                                Sum sum) {
    sum = __fmaf_rn(__uint_as_float(word << 16), __uint_as_float(even), sum);
    return __fmaf_rn(__uint_as_float(word & 0xffff0000u), __uint_as_float(odd), sum);
  }
  __device__ __forceinline__ static void Add(const uint4& piece, const uint4& first,
                                             const uint4& second, Sum& of_first, Sum& of_second) {
    of_first = AddWord(piece.x, first.x, first.y, of_first);
    of_second = AddWord(piece.z, second.x, second.y, of_second);
    of_first = AddWord(piece.y, first.z, first.w, of_first);
    of_second = AddWord(piece.w, second.z, second.w, of_second);
  }
  __device__ __forceinline__ static float Product(const score::QueryBound& query, Sum sum,
                                                  Sum /*none*/) {
    return score::CodeProduct(query, sum);
  }
};

}  // namespace nearfield::gpu

#endif  // NEARFIELD_ENGINE_GPU_KERNELS_CERTIFIED_CODE_TYPES_CUH_
