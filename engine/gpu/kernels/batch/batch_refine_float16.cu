// The refinement of a batch over fp16 rows.
#include "engine/gpu/kernels/batch/batch_refine_kernel.cuh"
#include "engine/gpu/kernels/batch/batch_table.h"

namespace nearfield::gpu {

BatchRefinePointer BatchRefineFloat16(bool many) {
  return many ? BatchRefineKernel<Float16Row, kRefineMany>
              : BatchRefineKernel<Float16Row, kRefineFew>;
}

}  // namespace nearfield::gpu
