// The kernel of one query over bf16 rows.
#include "engine/gpu/kernels/certified/one_query_kernel.cuh"
#include "engine/gpu/kernels/certified/one_query_table.h"

namespace nearfield::gpu {

OneQueryPointer OneQueryBFloat16(CodeType codes) {
  return codes == CodeType::kBf16 ? OneQueryKernel<BFloat16Row, Bf16Codes>
                                  : OneQueryKernel<BFloat16Row, Int8Codes>;
}

}  // namespace nearfield::gpu
