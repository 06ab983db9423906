// The one-query kernel over bf16 rows.
#include "engine/gpu/kernels/single/one_query_kernel.cuh"
#include "engine/gpu/kernels/single/one_query_table.h"

namespace nearfield::gpu {

OneQueryPointer OneQueryBFloat16() { return OneQueryKernel<BFloat16Row>; }

}  // namespace nearfield::gpu
