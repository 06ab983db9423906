#include "engine/topk/sampled_threshold.cuh"

namespace nearfield::gpu {

SampledTable SampledInt32() { return MakeSampledTable<Int32Scores>(); }

}  // namespace nearfield::gpu
