#include "engine/topk/sampled_threshold.cuh"

namespace nearfield::gpu {

SampledTable SampledUint32() { return MakeSampledTable<Uint32Scores>(); }

}  // namespace nearfield::gpu
