// The one-query kernel over fp16 rows.
#include "engine/gpu/kernels/single/one_query_kernel.cuh"
#include "engine/gpu/kernels/single/one_query_table.h"

namespace nearfield::gpu {

OneQueryPointer OneQueryFloat16() { return OneQueryKernel<Float16Row>; }

}  // namespace nearfield::gpu
