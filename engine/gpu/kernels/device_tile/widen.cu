// Converts queries in device memory to fp32 and checks them.
#include <climits>
#include <cstdint>

#include "engine/gpu/kernels/device_tile/device_tile.h"
#include "engine/gpu/kernels/primitives/row_elements.cuh"
#include "engine/gpu/kernels/primitives/warp_squared_norm.cuh"
#include "engine/score/score.h"

namespace nearfield::gpu {
namespace {

constexpr int kWidenThreads = 256;

// Returns the fault of a query. Requires: all threads of the block call; each passes the first
// dimension that is not finite among those that it read, and whether it read one that is not 0.
__device__ int32_t FaultOf(Metric metric, int not_finite, bool not_zero) {
  __shared__ int first;
  if (threadIdx.x == 0) first = INT_MAX;
  __syncthreads();
  if (not_finite != INT_MAX) atomicMin(&first, not_finite);
  const bool any = __syncthreads_or(not_zero ? 1 : 0) != 0;
  if (first != INT_MAX) return first;
  return metric == Metric::kCosine && !any ? kAllZeroFault : kNoFault;
}

// Converts one query per block and checks it.
// Grid (queries), block 256. Reads the query twice (the second time from cache), writes 4 B per
// dimension.
// Steps: 1 find a fault, 2 write the vector, or the first unit vector if there is one, 3 S(q, q).
template <typename Row>
__global__ void __launch_bounds__(kWidenThreads)
    WidenKernel(const __grid_constant__ WidenArgs args) {
  const int64_t begin = int64_t{blockIdx.x} * args.dimension;
  const auto* const from = static_cast<const typename Row::Element*>(args.queries) + begin;
  float* const to = args.vectors + begin;
  int not_finite = INT_MAX;
  bool not_zero = false;
  for (int d = static_cast<int>(threadIdx.x); d < args.dimension; d += kWidenThreads) {
    const auto value = static_cast<float>(Row::Value(from[d]));
    if (!isfinite(value)) not_finite = min(not_finite, d);
    if (value != 0.0f) not_zero = true;
  }
  const int32_t fault = FaultOf(args.metric, not_finite, not_zero);
  for (int d = static_cast<int>(threadIdx.x); d < args.dimension; d += kWidenThreads) {
    to[d] = fault != kNoFault ? (d == 0 ? 1.0f : 0.0f) : static_cast<float>(Row::Value(from[d]));
  }
  __syncthreads();
  if (args.squared != nullptr && threadIdx.x < kWarp) {
    const double squared = WarpSquaredNorm(to, args.dimension);
    if (threadIdx.x == 0) args.squared[blockIdx.x] = squared;
  }
  if (threadIdx.x != 0) return;
  args.faults[blockIdx.x] = fault;
  // The host may read the fault as soon as a later kernel has written its outcome.
  __threadfence_system();
}

const void* KernelOf(RowType type) {
  switch (type) {
    case RowType::kFloat32: return reinterpret_cast<const void*>(WidenKernel<Float32Row>);
    case RowType::kFloat16: return reinterpret_cast<const void*>(WidenKernel<Float16Row>);
    case RowType::kBFloat16: break;
  }
  return reinterpret_cast<const void*>(WidenKernel<BFloat16Row>);
}

}  // namespace

cudaError_t LaunchWiden(const WidenArgs& args, cudaStream_t stream) {
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(static_cast<unsigned>(args.count));
  config.blockDim = dim3(kWidenThreads);
  config.stream = stream;
  void* parameters[] = {const_cast<WidenArgs*>(&args)};
  return cudaLaunchKernelExC(&config, KernelOf(args.type), parameters);
}

}  // namespace nearfield::gpu
