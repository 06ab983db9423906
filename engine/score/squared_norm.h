// SquaredNorm: S(x, x) of an fp32 vector on the host.
#ifndef NEARFIELD_ENGINE_SCORE_SQUARED_NORM_H_
#define NEARFIELD_ENGINE_SCORE_SQUARED_NORM_H_

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

#endif  // NEARFIELD_ENGINE_SCORE_SQUARED_NORM_H_
