#include "engine/topk/sampled_threshold.cuh"

namespace nearfield::gpu {

SampledTable SampledFloat16() { return MakeSampledTable<Float16Scores>(); }

}  // namespace nearfield::gpu
