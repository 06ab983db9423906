// Launches the selections that keep a list of the best keys (row_lists.cuh). Host side.
#pragma once

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdint>

#include "engine/topk/algorithm.h"
#include "engine/topk/score_types.cuh"
#include "tests/bench/published/row_lists.cuh"

namespace nearfield::gpu::published {

using ListKernel = void (*)(ListRows);

static_assert(65535 * sizeof(uint32_t) <= kSelectStateBytes, "one counter per row");

// Returns the blocks per row: two blocks per multiprocessor if there are fewer rows than that, each
// with at least 4,096 scores and four scores for every key of its list.
inline int64_t BlocksPerRow(const SelectShape& shape, const SelectDevice& device) {
  const int64_t wanted = int64_t{2} * device.sm_count / shape.batch;
  const int64_t fed = shape.n / std::max(int64_t{4096}, 4 * shape.k);
  return std::clamp<int64_t>(std::min(wanted, fed), 1, kRowBlocksMax);
}

inline int64_t ListWorkspaceBytes(const SelectShape& shape, const SelectDevice& device) {
  const int64_t blocks = BlocksPerRow(shape, device);
  if (blocks == 1) return kSelectStateBytes;
  return kSelectStateBytes + shape.batch * blocks * shape.k * static_cast<int64_t>(8);
}

// Does nothing: all the shared memory is static.
inline cudaError_t PrepareListKernels(const SelectDevice& /*device*/) { return cudaSuccess; }

template <typename Kernels>
ListKernel ListKernelOf(const SelectShape& shape) {
  return WithScores(shape.type, [&](auto scores) -> ListKernel {
    return Kernels::template Of<decltype(scores)>(shape.k);
  });
}

// Launches Kernels::Of<Scores>(k) for the scores and the k of the call.
template <typename Kernels>
cudaError_t LaunchListKernel(const SelectCall& call) {
  ListRows rows = {call.rows, reinterpret_cast<uint64_t*>(call.workspace + kSelectStateBytes),
                   reinterpret_cast<uint32_t*>(call.workspace)};
  const dim3 grid(static_cast<unsigned>(call.shape.batch),
                  static_cast<unsigned>(BlocksPerRow(call.shape, call.device)));
  void* parameters[] = {&rows};
  return cudaLaunchKernel(reinterpret_cast<const void*>(ListKernelOf<Kernels>(call.shape)), grid,
                          dim3(kListThreads), parameters, 0, call.stream);
}

}  // namespace nearfield::gpu::published
