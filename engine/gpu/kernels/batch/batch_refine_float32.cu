// The refinement of a batch over fp32 rows.
#include "engine/gpu/kernels/batch/batch_refine_kernel.cuh"
#include "engine/gpu/kernels/batch/batch_table.h"

namespace nearfield::gpu {

BatchRefinePointer BatchRefineFloat32(bool many) {
  return many ? BatchRefineKernel<Float32Row, kRefineMany>
              : BatchRefineKernel<Float32Row, kRefineFew>;
}

}  // namespace nearfield::gpu
