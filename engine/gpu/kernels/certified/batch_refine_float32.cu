// Refinement of a batch over fp32 rows.
#include "engine/gpu/kernels/certified/batch_refine_kernel.cuh"
#include "engine/gpu/kernels/certified/batch_table.h"

namespace nearfield::gpu {

BatchRefinePointer BatchRefineFloat32(CodeType codes, bool many) {
  if (codes == CodeType::kBf16) {
    return many ? BatchRefineKernel<Float32Row, Bf16Codes, kRefineMany>
                : BatchRefineKernel<Float32Row, Bf16Codes, kRefineFew>;
  }
  return many ? BatchRefineKernel<Float32Row, Int8Codes, kRefineMany>
              : BatchRefineKernel<Float32Row, Int8Codes, kRefineFew>;
}

}  // namespace nearfield::gpu
