// Adds one dimension to a canonical score. All device code that computes scores uses it.
#ifndef NEARFIELD_ENGINE_GPU_KERNELS_PRIMITIVES_SCORE_STEP_CUH_
#define NEARFIELD_ENGINE_GPU_KERNELS_PRIMITIVES_SCORE_STEP_CUH_

#include "engine/score/score.h"

namespace nearfield::gpu {

template <bool kL2>
__device__ __forceinline__ double ScoreStep(double query, double row, double sum) {
  return kL2 ? score::L2Step(query, row, sum) : score::DotStep(query, row, sum);
}

}  // namespace nearfield::gpu

#endif  // NEARFIELD_ENGINE_GPU_KERNELS_PRIMITIVES_SCORE_STEP_CUH_
