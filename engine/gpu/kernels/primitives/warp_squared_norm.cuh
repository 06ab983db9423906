// S(x, x) of an fp32 vector in device memory.
#pragma once

#include "engine/gpu/kernels/primitives/warp_tree.cuh"
#include "engine/score/score.h"

namespace nearfield::gpu {

// Returns S(vector, vector) in all lanes. Requires: all lanes of the warp call.
__device__ inline double WarpSquaredNorm(const float* vector, int dimension) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  double sums[1] = {0.0};
  for (int d = lane; d < dimension; d += kWarp) {
    sums[0] = score::DotStep(vector[d], vector[d], sums[0]);
  }
  return WarpTree(sums, lane);
}

}  // namespace nearfield::gpu
