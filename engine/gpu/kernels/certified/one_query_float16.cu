// The kernel of one query over fp16 rows.
#include "engine/gpu/kernels/certified/one_query_kernel.cuh"
#include "engine/gpu/kernels/certified/one_query_table.h"

namespace nearfield::gpu {

OneQueryPointer OneQueryFloat16(CodeType codes) {
  return codes == CodeType::kBf16 ? OneQueryKernel<Float16Row, Bf16Codes>
                                  : OneQueryKernel<Float16Row, Int8Codes>;
}

}  // namespace nearfield::gpu
