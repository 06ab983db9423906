#include "engine/topk/sampled_threshold.cuh"

namespace nearfield::gpu {

SampledTable SampledBFloat16() { return MakeSampledTable<BFloat16Scores>(); }

}  // namespace nearfield::gpu
