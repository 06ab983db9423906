// Copies rows whose scores are not neighbors in memory to rows whose scores are.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "engine/topk/score_rows.h"

namespace nearfield::gpu {

// Copies scores `column_stride` apart of each of `batch` rows to packed[batch, rows.n], and their
// number to lengths[batch], if that is not null.
cudaError_t LaunchPackRows(const ScoreRows& rows, ScoreType type, int64_t batch,
                           int64_t column_stride, void* packed, int32_t* lengths,
                           cudaStream_t stream);

}  // namespace nearfield::gpu
