// The refinement of a batch over bf16 rows.
#include "engine/gpu/kernels/batch/batch_refine_kernel.cuh"
#include "engine/gpu/kernels/batch/batch_table.h"

namespace nearfield::gpu {

BatchRefinePointer BatchRefineBFloat16(bool many) {
  return many ? BatchRefineKernel<BFloat16Row, kRefineMany>
              : BatchRefineKernel<BFloat16Row, kRefineFew>;
}

}  // namespace nearfield::gpu
