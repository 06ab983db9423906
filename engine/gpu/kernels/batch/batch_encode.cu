// Encodes a batch of queries: codes and bounds.
#include <algorithm>
#include <cstdint>

#include "engine/gpu/kernels/batch/batch.h"
#include "engine/gpu/kernels/batch/batch_table.h"
#include "engine/gpu/kernels/encode/encode_query.cuh"
#include "engine/gpu/kernels/primitives/warp_squared_norm.cuh"
#include "engine/score/score.h"

namespace nearfield::gpu {
namespace {

constexpr int kThreads = 256;

__host__ __device__ constexpr int64_t EncodeSharedBytes(int32_t dimension) {
  return RotatedVector::Bytes(dimension) + 8 * SignWords(dimension);
}

// Initializes the state of a query, by the first warp: S(q, q), no threshold, an empty queue.
__device__ void BeginState(const BatchArgs& args, const float* vector, BatchQuery& state) {
  if (threadIdx.x >= kWarp) return;
  const double squared =
      args.metric == Metric::kCosine ? WarpSquaredNorm(vector, args.rotation.dimension) : 1.0;
  if (threadIdx.x != 0) return;
  state.threshold = score::MinusInfinity();
  state.squared = squared;
  state.listed = 0;
  state.scored = 0;
  state.overflow = 0;
}

// Encodes one query per block and initializes its state: no threshold, an empty queue.
// Grid (queries), block 256. Reads 4 B per dimension, writes two codes; takes a few microseconds.
// Requires EncodeSharedBytes of dynamic shared memory.
__global__ void __launch_bounds__(kThreads)
    BatchEncodeKernel(const __grid_constant__ BatchArgs args) {
  extern __shared__ double2 shared_bytes[];
  __shared__ BlockSumsShared sums;
  const auto query = static_cast<int64_t>(blockIdx.x);
  const int dimension = args.rotation.dimension;
  const float* const vector = args.vectors + query * dimension;
  BatchQuery& state = args.state[query];
  auto* const values = reinterpret_cast<double*>(shared_bytes);
  auto* const signs = reinterpret_cast<uint32_t*>(reinterpret_cast<char*>(shared_bytes) +
                                                  RotatedVector::Bytes(dimension));
  EncodeQuery<kThreads>(args.rotation, args.metric, vector, {values, signs, &sums},
                        {reinterpret_cast<int8_t*>(args.first + query * args.code_stride),
                         reinterpret_cast<int8_t*>(args.second + query * args.code_stride),
                         args.code_stride, &state.both, &state.first_only});
  BeginState(args, vector, state);
}

}  // namespace

cudaError_t PrepareBatchEncode(const BatchDevice& device, int32_t* dimension_max) {
  const int32_t largest = LargestDimension(device, [](int32_t dimension) {
    return EncodeSharedBytes(dimension) + int64_t{sizeof(BlockSumsShared)};
  });
  *dimension_max = std::min(*dimension_max, largest);
  return cudaFuncSetAttribute(BatchEncodeKernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                              static_cast<int>(EncodeSharedBytes(largest)));
}

cudaError_t LaunchBatchEncode(const BatchArgs& args, cudaStream_t stream) {
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(static_cast<unsigned>(args.queries));
  config.blockDim = dim3(kThreads);
  config.dynamicSmemBytes = static_cast<size_t>(EncodeSharedBytes(args.rotation.dimension));
  config.stream = stream;
  void* parameters[] = {const_cast<BatchArgs*>(&args)};
  return cudaLaunchKernelExC(&config, reinterpret_cast<const void*>(BatchEncodeKernel), parameters);
}

}  // namespace nearfield::gpu
