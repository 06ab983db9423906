#include "engine/gpu/memory/read_rate.h"

#include <algorithm>
#include <cstdint>

namespace nearfield::gpu {
namespace {

constexpr int kThreads = 512;
constexpr int kBlocksPerSm = 2;
constexpr int kLoads = 8;  // in flight per thread
constexpr int kPasses = 5;

// Reads `vectors` vectors of 16 bytes. Grid (any), block kThreads. The write, which never happens,
// keeps the loads: `never` is null.
__global__ void __launch_bounds__(kThreads)
    ReadKernel(const uint4* memory, int64_t vectors, uint32_t* never) {
  const auto step = static_cast<int64_t>(gridDim.x) * kThreads;
  uint32_t sum = 0;
  for (int64_t first = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x; first < vectors;
       first += kLoads * step) {
    uint4 loaded[kLoads];
#pragma unroll
    for (int i = 0; i < kLoads; ++i) {
      const int64_t at = first + i * step;
      loaded[i] = at < vectors ? __ldcs(memory + at) : uint4{};
    }
#pragma unroll
    for (const uint4& one : loaded) sum |= one.x | one.y | one.z | one.w;
  }
  if (never != nullptr) *never = sum;
}

}  // namespace

cudaError_t MeasureReadRate(const char* memory, int64_t bytes, int sm_count, cudaStream_t stream,
                            double* bytes_per_second) {
  cudaEvent_t begin = nullptr;
  cudaEvent_t end = nullptr;
  cudaError_t error = cudaEventCreate(&begin);
  if (error == cudaSuccess) error = cudaEventCreate(&end);
  float best_ms = 0;
  for (int pass = 0; pass < kPasses && error == cudaSuccess; ++pass) {
    error = cudaEventRecord(begin, stream);
    if (error != cudaSuccess) break;
    ReadKernel<<<static_cast<unsigned>(kBlocksPerSm * sm_count), kThreads, 0, stream>>>(
        reinterpret_cast<const uint4*>(memory), bytes / 16, nullptr);
    error = cudaGetLastError();  // of the launch
    if (error == cudaSuccess) error = cudaEventRecord(end, stream);
    if (error == cudaSuccess) error = cudaEventSynchronize(end);
    float ms = 0;
    if (error == cudaSuccess) error = cudaEventElapsedTime(&ms, begin, end);
    // The first pass also loads the kernel.
    if (pass > 0) best_ms = best_ms == 0 ? ms : std::min(best_ms, ms);
  }
  if (begin != nullptr) cudaEventDestroy(begin);
  if (end != nullptr) cudaEventDestroy(end);
  if (error == cudaSuccess && best_ms > 0)
    *bytes_per_second = 1e3 * static_cast<double>(bytes) / best_ms;
  return error;
}

}  // namespace nearfield::gpu
