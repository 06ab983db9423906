// The refinement of a batch over fp16 rows.
#include "engine/gpu/kernels/batch/batch_refine_variants.cuh"

namespace nearfield::gpu {

BatchRefinePointer BatchRefineFloat16(RefineVariant variant, bool terms) {
  return terms ? BatchRefineTermsOf<Float16Row>(variant) : BatchRefineOf<Float16Row>(variant);
}

}  // namespace nearfield::gpu
