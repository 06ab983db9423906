// The refinement of a batch over bf16 rows.
#include "engine/gpu/kernels/batch/batch_refine_kernel.cuh"

namespace nearfield::gpu {

BatchRefinePointer BatchRefineBFloat16(RefineVariant variant) {
  return BatchRefineOf<BFloat16Row>(variant);
}

}  // namespace nearfield::gpu
