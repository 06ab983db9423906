// The kernel of one query over fp32 rows.
#include "engine/gpu/kernels/certified/one_query_kernel.cuh"
#include "engine/gpu/kernels/certified/one_query_table.h"

namespace nearfield::gpu {

OneQueryPointer OneQueryFloat32(CodeType codes) {
  return codes == CodeType::kBf16 ? OneQueryKernel<Float32Row, Bf16Codes>
                                  : OneQueryKernel<Float32Row, Int8Codes>;
}

}  // namespace nearfield::gpu
