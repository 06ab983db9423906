// The refinement of a batch over fp32 rows.
#include "engine/gpu/kernels/batch/batch_refine_kernel.cuh"

namespace nearfield::gpu {

BatchRefinePointer BatchRefineFloat32(RefineVariant variant) {
  return BatchRefineOf<Float32Row>(variant);
}

}  // namespace nearfield::gpu
