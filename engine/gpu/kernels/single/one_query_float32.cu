// The one-query kernel over fp32 rows.
#include "engine/gpu/kernels/single/one_query_kernel.cuh"
#include "engine/gpu/kernels/single/one_query_table.h"

namespace nearfield::gpu {

OneQueryPointer OneQueryFloat32() { return OneQueryKernel<Float32Row>; }

}  // namespace nearfield::gpu
