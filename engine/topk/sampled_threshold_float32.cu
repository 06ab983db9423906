#include "engine/topk/sampled_threshold.cuh"

namespace nearfield::gpu {

SampledTable SampledFloat32() { return MakeSampledTable<Float32Scores>(); }

}  // namespace nearfield::gpu
