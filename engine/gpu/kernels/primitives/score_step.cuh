// Adds one dimension to a canonical score. All device code that computes scores uses it.
#pragma once

#include "engine/score/score.h"

namespace nearfield::gpu {

template <bool kL2>
__device__ __forceinline__ double ScoreStep(double query, double row, double sum) {
  return kL2 ? score::L2Step(query, row, sum) : score::DotStep(query, row, sum);
}

}  // namespace nearfield::gpu
