// SquaredNorm: S(x, x) of an fp32 vector on the host.
#pragma once

#include <cstdint>

#include "engine/score/score.h"

namespace nearfield::score {

inline double SquaredNorm(const float* vector, int32_t dim) {
  double sums[kAccumulators] = {};
  for (int32_t d = 0; d < dim; ++d) {
    double& sum = sums[d % kAccumulators];
    sum = DotStep(vector[d], vector[d], sum);
  }
  return ReduceAccumulators(sums);
}

}  // namespace nearfield::score
