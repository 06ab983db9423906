// The refinement of a batch over fp16 rows.
#include "engine/gpu/kernels/batch/batch_refine_kernel.cuh"

namespace nearfield::gpu {

BatchRefinePointer BatchRefineFloat16(RefineVariant variant) {
  return BatchRefineOf<Float16Row>(variant);
}

}  // namespace nearfield::gpu
