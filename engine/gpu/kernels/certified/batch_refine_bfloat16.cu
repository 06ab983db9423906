// Refinement of a batch over bf16 rows.
#include "engine/gpu/kernels/certified/batch_refine_kernel.cuh"
#include "engine/gpu/kernels/certified/batch_table.h"

namespace nearfield::gpu {

BatchRefinePointer BatchRefineBFloat16(CodeType codes, bool many) {
  if (codes == CodeType::kBf16) {
    return many ? BatchRefineKernel<BFloat16Row, Bf16Codes, kRefineMany>
                : BatchRefineKernel<BFloat16Row, Bf16Codes, kRefineFew>;
  }
  return many ? BatchRefineKernel<BFloat16Row, Int8Codes, kRefineMany>
              : BatchRefineKernel<BFloat16Row, Int8Codes, kRefineFew>;
}

}  // namespace nearfield::gpu
