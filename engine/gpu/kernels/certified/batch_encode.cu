// Codes and bounds of a batch of queries.
#include <cstdint>

#include "engine/gpu/kernels/certified/batch.h"
#include "engine/gpu/kernels/certified/batch_table.h"
#include "engine/gpu/kernels/codes/encode_query.cuh"
#include "engine/gpu/kernels/common/warp_tree.cuh"
#include "engine/score/bf16_bound.h"
#include "engine/score/score.h"

namespace nearfield::gpu {
namespace {

constexpr int kThreads = 256;

__host__ __device__ constexpr int64_t EncodeSharedBytes(int32_t dimension) {
  return RotatedVector::Bytes(dimension) + 8 * SignWords(dimension);
}

// S(q, q), by one warp.
__device__ double SquaredNormOf(const float* vector, int dimension) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  double sums[1] = {0.0};
  for (int d = lane; d < dimension; d += kWarp) {
    sums[0] = score::DotStep(vector[d], vector[d], sums[0]);
  }
  return WarpTree(sums, lane);
}

// By the first warp: S(q, q), no threshold, an empty queue.
__device__ void BeginState(const BatchArgs& args, const float* vector, BatchQuery& state) {
  if (threadIdx.x >= kWarp) return;
  const double squared =
      args.metric == ScanMetric::kCosine ? SquaredNormOf(vector, args.rotation.dimension) : 1.0;
  if (threadIdx.x != 0) return;
  state.threshold = score::MinusInfinity();
  state.squared = squared;
  state.listed = 0;
  state.scored = 0;
  state.overflow = 0;
}

// Encodes one query a block and begins its state: no threshold, an empty queue.
// Grid: a block of 256 a query. Reads 4 B a dimension, writes two codes; a few microseconds.
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

// The same for bf16 copies: the query as bf16, for the tensor cores, and as fp32, for the end.
// Grid: a block of 256 a query. Steps: 1 the norm, 2 elements and what they leave out, 3 bounds.
__global__ void __launch_bounds__(kThreads)
    BatchEncodeBf16Kernel(const __grid_constant__ BatchArgs args) {
  __shared__ BlockSumsShared sums_shared;
  BlockSums<kThreads> sums(sums_shared);
  const auto query = static_cast<int64_t>(blockIdx.x);
  const int dimension = args.rotation.dimension;
  const float* const vector = args.vectors + query * dimension;
  auto* const limb = reinterpret_cast<uint16_t*>(args.first + query * args.code_stride);
  auto* const multiplied = reinterpret_cast<float*>(args.second + 2 * query * args.code_stride);
  const int thread = static_cast<int>(threadIdx.x);
  const bool cosine = args.metric == ScanMetric::kCosine;
  double squares = 0;
  for (int i = thread; i < dimension; i += kThreads) {
    const double value = vector[i];
    squares += value * value;
  }
  squares = sums.Sum(squares);
  const double norm = cosine ? sqrt(squares) : 1.0;
  double quotients = 0;
  double rest = 0;
  double limb_rest = 0;
  for (int i = thread; i < args.code_stride / 2; i += kThreads) {
    double value = i < dimension ? static_cast<double>(vector[i]) : 0.0;
    if (cosine) value /= norm;
    const float rounded = static_cast<float>(value);
    const uint16_t bits = score::Bf16CopyBits(rounded);
    multiplied[Bf16QueryPlace(args.code_stride, i)] = rounded;
    limb[i] = bits;
    const double left = value - static_cast<double>(rounded);
    const double limb_left =
        value - static_cast<double>(__uint_as_float(static_cast<uint32_t>(bits) << 16));
    quotients += value * value;
    rest += left * left;
    limb_rest += limb_left * limb_left;
  }
  quotients = sums.Sum(quotients);
  rest = sums.Sum(rest);
  limb_rest = sums.Sum(limb_rest);
  BatchQuery& state = args.state[query];
  if (thread == 0) {
    const bool l2 = args.metric == ScanMetric::kL2;
    score::Bf16QueryNorms norms;
    norms.query = score::NormUp(quotients, dimension);
    norms.rest = score::NormUp(rest, dimension);
    norms.sum_error = score::Bf16SumError(dimension);
    state.both = score::MakeBf16QueryBound(norms, l2, squares, dimension);
    norms.rest = score::NormUp(limb_rest, dimension);
    norms.sum_error = score::Bf16TensorError(dimension);
    state.first_only = score::MakeBf16QueryBound(norms, l2, squares, dimension);
  }
  BeginState(args, vector, state);
}

}  // namespace

cudaError_t PrepareBatchEncode() {
  cudaFuncAttributes attributes = {};
  const cudaError_t error = cudaFuncGetAttributes(&attributes, BatchEncodeBf16Kernel);
  if (error != cudaSuccess) return error;
  return cudaFuncSetAttribute(BatchEncodeKernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                              static_cast<int>(EncodeSharedBytes(8192)));
}

cudaError_t LaunchBatchEncode(const BatchArgs& args, cudaStream_t stream) {
  const bool bf16 = args.corpus.generations[0].codes.type == CodeType::kBf16;
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(static_cast<unsigned>(args.queries));
  config.blockDim = dim3(kThreads);
  config.dynamicSmemBytes =
      bf16 ? 0 : static_cast<size_t>(EncodeSharedBytes(args.rotation.dimension));
  config.stream = stream;
  void* parameters[] = {const_cast<BatchArgs*>(&args)};
  const void* const kernel = bf16 ? reinterpret_cast<const void*>(BatchEncodeBf16Kernel)
                                  : reinterpret_cast<const void*>(BatchEncodeKernel);
  return cudaLaunchKernelExC(&config, kernel, parameters);
}

}  // namespace nearfield::gpu
