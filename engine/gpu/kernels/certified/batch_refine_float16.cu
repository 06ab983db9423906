// Refinement of a batch over fp16 rows.
#include "engine/gpu/kernels/certified/batch_refine_kernel.cuh"
#include "engine/gpu/kernels/certified/batch_table.h"

namespace nearfield::gpu {

BatchRefinePointer BatchRefineFloat16(CodeType codes, bool many) {
  if (codes == CodeType::kBf16) {
    return many ? BatchRefineKernel<Float16Row, Bf16Codes, kRefineMany>
                : BatchRefineKernel<Float16Row, Bf16Codes, kRefineFew>;
  }
  return many ? BatchRefineKernel<Float16Row, Int8Codes, kRefineMany>
              : BatchRefineKernel<Float16Row, Int8Codes, kRefineFew>;
}

}  // namespace nearfield::gpu
