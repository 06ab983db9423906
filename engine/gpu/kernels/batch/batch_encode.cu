// Encodes a batch of queries: codes or integers, and bounds.
#include <algorithm>
#include <cstdint>

#include "engine/bound/integer_bound.h"
#include "engine/gpu/kernels/batch/batch.h"
#include "engine/gpu/kernels/batch/batch_table.h"
#include "engine/gpu/kernels/encode/encode_query.cuh"
#include "engine/gpu/kernels/primitives/row_layout.h"
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
  state.kept = 0;
  state.listed = 0;
  state.scored = 0;
  state.overflow = 0;
}

// Brings the input of a block's query to device memory, and by the first block the corpus. Ends
// with a barrier.
__device__ void TakeInput(const BatchArgs& args) {
  const int thread = static_cast<int>(threadIdx.x);
  const auto query = static_cast<int64_t>(blockIdx.x);
  const BatchInput& input = args.input;
  if (query == 0 && args.corpus_in_memory != nullptr) {
    static_assert(sizeof(CodedCorpus) % sizeof(uint64_t) == 0);
    const auto* const from = reinterpret_cast<const uint64_t*>(&args.corpus);
    auto* const to = reinterpret_cast<uint64_t*>(args.corpus_in_memory);
    for (int i = thread; i < int{sizeof(CodedCorpus) / sizeof(uint64_t)}; i += kThreads) {
      to[i] = from[i];
    }
  }
  if (thread == 0 && input.k != nullptr) args.k[query] = input.k[query];
  if (thread == kWarp && input.places != nullptr) args.places[query] = input.places[query];
  if (input.absent != nullptr) {
    static_assert(sizeof(AbsentView) % sizeof(uint64_t) == 0);
    const int words = args.corpus.count * int{sizeof(AbsentView) / sizeof(uint64_t)};
    const auto* const from = reinterpret_cast<const uint64_t*>(input.absent) + query * words;
    auto* const to = reinterpret_cast<uint64_t*>(args.absent) + query * words;
    for (int i = thread; i < words; i += kThreads) to[i] = from[i];
  }
  if (input.terms != nullptr) {
    const auto* const from = reinterpret_cast<const uint64_t*>(input.terms);
    auto* const to = reinterpret_cast<uint64_t*>(args.terms);
    const int64_t words = args.terms_bytes / int64_t{sizeof(uint64_t)};
    for (int64_t i = query * kThreads + thread; i < words; i += int64_t{gridDim.x} * kThreads) {
      to[i] = from[i];
    }
  }
  if (input.vectors != nullptr) {
    const int64_t begin = query * args.rotation.dimension;
    for (int i = thread; i < args.rotation.dimension; i += kThreads) {
      args.vectors[begin + i] = input.vectors[begin + i];
    }
  }
  __syncthreads();
}

// Encodes one query per block and initializes its state: no threshold, an empty queue.
// Grid (queries), block 256. Reads 4 B per dimension, over the link if they are on the host, writes
// two codes; takes a few microseconds. Requires EncodeSharedBytes of dynamic shared memory.
__global__ void __launch_bounds__(kThreads)
    BatchEncodeKernel(const __grid_constant__ BatchArgs args) {
  extern __shared__ double2 shared_bytes[];
  __shared__ BlockSumsShared sums;
  TakeInput(args);
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

// Converts one query per block to integers (bound/integer_bound.h) in the order of a row's
// elements, and initializes its state. Grid (queries), block 256. Reads 4 B per dimension four
// times, writes two parts; takes a few microseconds.
__global__ void __launch_bounds__(kThreads)
    BatchIntegersKernel(const __grid_constant__ BatchArgs args) {
  __shared__ BlockSumsShared shared;
  TakeInput(args);
  BlockSums<kThreads> sums(shared);
  const auto query = static_cast<int64_t>(blockIdx.x);
  const int thread = static_cast<int>(threadIdx.x);
  const int dimension = args.rotation.dimension;
  const RowShape shape = RowShapeOf(dimension);
  const float* const vector = args.vectors + query * dimension;
  // Sums value(i) over the elements.
  const auto sum_of = [&](auto value) {
    double sum = 0;
    for (int i = thread; i < dimension; i += kThreads) sum += value(i);
    return sums.Sum(sum);
  };
  double squares = sum_of([&](int i) { return static_cast<double>(vector[i]) * vector[i]; });
  const double norm = args.metric == Metric::kCosine ? sqrt(squares) : 1.0;
  const auto element = [&](int i) { return static_cast<double>(vector[i]) / norm; };
  if (args.metric == Metric::kCosine) {
    squares = sum_of([&](int i) { return element(i) * element(i); });
  }
  double magnitude = 0;
  for (int i = thread; i < dimension; i += kThreads) magnitude = fmax(magnitude, fabs(element(i)));
  const float scale = bound::CodeScale(sums.Max(magnitude), bound::kIntegerMax);
  const bool usable = scale > 0.0f && isfinite(scale);
  const double inverse = usable ? 1.0 / static_cast<double>(scale) : 0.0;
  double low_squares = 0;
  double rest_squares = 0;
  for (int i = thread; i < args.code_stride; i += kThreads) {
    bound::IntegerParts parts;
    if (i < dimension) {
      const double integer = usable ? bound::CodeOf(element(i), inverse, bound::kIntegerMax) : 0.0;
      parts = bound::PartsOf(static_cast<int32_t>(integer));
      const double rest = element(i) - (usable ? static_cast<double>(scale) * integer : 0.0);
      rest_squares += rest * rest;
      low_squares += static_cast<double>(parts.low * parts.low);
    }
    const int64_t at = query * args.code_stride + RowPosition(shape, i);
    args.first[at] = static_cast<char>(parts.high);
    args.second[at] = static_cast<char>(parts.low);
  }
  const bound::IntegerNorms norms = {
      .query = bound::NormUp(squares, dimension),
      .low = bound::NormUp(sums.Sum(low_squares), dimension) * static_cast<double>(scale),
      .rest = bound::NormUp(sums.Sum(rest_squares), dimension)};
  BatchQuery& state = args.state[query];
  BeginState(args, vector, state);
  if (thread != 0) return;
  state.first_only =
      bound::MakeIntegerQueryBound(args.metric, usable ? scale : 0.0f, norms, squares, dimension);
}

}  // namespace

cudaError_t PrepareBatchEncode(const BatchDevice& device, BatchDimensions* dimensions) {
  const int32_t largest = LargestDimension(device, [](int32_t dimension) {
    return EncodeSharedBytes(dimension) + int64_t{sizeof(BlockSumsShared)};
  });
  dimensions->usual_k = std::min(dimensions->usual_k, largest);
  dimensions->large_k = std::min(dimensions->large_k, largest);
  return cudaFuncSetAttribute(BatchEncodeKernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                              static_cast<int>(EncodeSharedBytes(largest)));
}

cudaError_t LaunchBatchEncode(const BatchArgs& args, cudaStream_t stream) {
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(static_cast<unsigned>(args.queries));
  config.blockDim = dim3(kThreads);
  config.stream = stream;
  void* parameters[] = {const_cast<BatchArgs*>(&args)};
  if (args.source == BatchSource::kRows) {
    return cudaLaunchKernelExC(&config, reinterpret_cast<const void*>(BatchIntegersKernel),
                               parameters);
  }
  config.dynamicSmemBytes = static_cast<size_t>(EncodeSharedBytes(args.rotation.dimension));
  return cudaLaunchKernelExC(&config, reinterpret_cast<const void*>(BatchEncodeKernel), parameters);
}

}  // namespace nearfield::gpu
