// The order in which a launch starts ragged rows.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "engine/topk/score_rows.h"

namespace nearfield::gpu {

// Orders `batch` rows by length, longest first, to order[batch]; rows of about the same length come
// in any order. So no long row starts last, when the other multiprocessors are done.
cudaError_t LaunchRowOrder(const ScoreRows& rows, int64_t batch, uint32_t* order,
                           cudaStream_t stream);

}  // namespace nearfield::gpu
