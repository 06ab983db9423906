// Canonical reduction tree over the 32 accumulators of a score, for several scores together.
#pragma once

#include "engine/cuda/warp.h"

namespace nearfield::gpu {

// Reduces kValues sums held across a warp: lane L holds accumulator L of each. Every addition is
// the contract's pair a[l] + a[l + h], h = 16, 8, 4, 2, 1 (fp64 addition commutes, so either lane
// of a pair may do it). While several sums remain, a step splits them: lanes with bit h clear keep
// the first half of the sums, the others the second half. kValues sums then take kValues + 4 -
// log2(kValues) exchanges, not 5 kValues. Returns, in every lane, sum number lane / (32 / kValues).
// Requires: all 32 lanes call it; kValues is a power of two, 1 .. 32.
template <int kValues>
__device__ inline double WarpTree(double (&sums)[kValues], int lane) {
  static_assert(kValues >= 1 && kValues <= kWarp && (kValues & (kValues - 1)) == 0);
#pragma unroll
  for (int half = kWarp / 2, left = kValues; half >= 1; half /= 2, left /= 2) {
    if (left > 1) {
      const bool upper = (lane & half) != 0;
#pragma unroll
      for (int i = 0; i < kValues / 2; ++i) {
        if (i < left / 2) {
          const double kept = upper ? sums[i + left / 2] : sums[i];
          const double given = upper ? sums[i] : sums[i + left / 2];
          sums[i] = __dadd_rn(kept, __shfl_xor_sync(kFullWarp, given, half));
        }
      }
    } else {
      sums[0] = __dadd_rn(sums[0], __shfl_xor_sync(kFullWarp, sums[0], half));
    }
  }
  return sums[0];
}

}  // namespace nearfield::gpu
