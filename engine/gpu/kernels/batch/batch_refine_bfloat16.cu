// The refinement of a batch over bf16 rows.
#include "engine/gpu/kernels/batch/batch_refine_variants.cuh"

namespace nearfield::gpu {

BatchRefinePointer BatchRefineBFloat16(RefineVariant variant, bool terms) {
  return terms ? BatchRefineTermsOf<BFloat16Row>(variant) : BatchRefineOf<BFloat16Row>(variant);
}

}  // namespace nearfield::gpu
