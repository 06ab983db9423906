// The refinement of a batch over fp32 rows.
#include "engine/gpu/kernels/batch/batch_refine_variants.cuh"

namespace nearfield::gpu {

BatchRefinePointer BatchRefineFloat32(RefineVariant variant, bool terms) {
  return terms ? BatchRefineTermsOf<Float32Row>(variant) : BatchRefineOf<Float32Row>(variant);
}

}  // namespace nearfield::gpu
