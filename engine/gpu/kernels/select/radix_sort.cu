// radix_sort: the whole row, sorted. For every k, and for nothing else the fastest.
#include <cub/device/device_radix_sort.cuh>

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "engine/gpu/kernels/select/algorithm.h"
#include "engine/gpu/kernels/select/score_types.cuh"

namespace nearfield::gpu {
namespace {

constexpr int kThreads = 256;
constexpr int64_t kBlocksMax = 4096;

constexpr int64_t RoundUpTo256(int64_t bytes) { return (bytes + 255) / 256 * 256; }

unsigned BlocksFor(int64_t items) {
  return static_cast<unsigned>(
      std::clamp<int64_t>((items + kThreads - 1) / kThreads, 1, kBlocksMax));
}

// The four arrays of a row, [n] each, and CUB's own memory behind them.
struct SortBuffers {
  uint32_t* orders;
  uint32_t* indices;
  uint32_t* sorted_orders;
  uint32_t* sorted_indices;
  char* scratch;
};

SortBuffers BuffersIn(char* workspace, int64_t n) {
  const int64_t bytes = RoundUpTo256(n * 4);
  const auto array = [&](int64_t place) {
    return reinterpret_cast<uint32_t*>(workspace + place * bytes);
  };
  return {array(0), array(1), array(2), array(3), workspace + 4 * bytes};
}

// Turns one row into ordered bits and indices. Grid-stride, block 256: reads a score, writes 8 B
// each.
template <typename Scores>
__global__ void __launch_bounds__(kThreads)
    MakeOrdersKernel(const typename Scores::Raw* row, int64_t n, SortBuffers buffers) {
  const int64_t step = int64_t{gridDim.x} * kThreads;
  for (int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x; i < n; i += step) {
    buffers.orders[i] = OrderOf(Scores::Value(row[i]));
    buffers.indices[i] = static_cast<uint32_t>(i);
  }
}

// Writes the first k of a sorted row. Grid-stride, block 256: reads 8 B, writes a score and 4 B
// each.
template <typename Scores>
__global__ void __launch_bounds__(kThreads)
    TakeFirstKernel(SortBuffers buffers, int64_t k, typename Scores::Raw* values,
                    uint32_t* indices) {
  const int64_t step = int64_t{gridDim.x} * kThreads;
  for (int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x; i < k; i += step) {
    values[i] = Scores::FromValue(ScoreOf(buffers.sorted_orders[i]));
    indices[i] = buffers.sorted_indices[i];
  }
}

// The sort is stable and the indices begin ascending: equal scores stay in the order of their
// indices.
cudaError_t SortRow(const SortBuffers& buffers, int64_t n, std::size_t* scratch_bytes,
                    cudaStream_t stream) {
  return cub::DeviceRadixSort::SortPairsDescending(buffers.scratch, *scratch_bytes, buffers.orders,
                                                   buffers.sorted_orders, buffers.indices,
                                                   buffers.sorted_indices, n, 0, 32, stream);
}

const char* Refuses(const SelectShape&, const SelectFacts&) { return nullptr; }

int64_t ScratchBytes(int64_t n) {
  std::size_t bytes = 0;
  const SortBuffers nothing = {};
  // The query fails only where there is no device, and then nothing is ever launched.
  if (SortRow(nothing, n, &bytes, nullptr) != cudaSuccess) return 0;
  return static_cast<int64_t>(bytes);
}

int64_t WorkspaceBytes(const SelectShape& shape, const SelectFacts&) {
  return kSelectStateBytes + 4 * RoundUpTo256(shape.n * 4) + ScratchBytes(shape.n);
}

cudaError_t Prepare(const SelectFacts&) { return cudaSuccess; }

template <typename Scores>
cudaError_t LaunchRows(const SelectCall& call) {
  using Raw = typename Scores::Raw;
  const int64_t n = call.shape.n;
  const int64_t k = call.shape.k;
  const SortBuffers buffers = BuffersIn(call.workspace + kSelectStateBytes, n);
  auto scratch_bytes = static_cast<std::size_t>(ScratchBytes(n));
  for (int64_t row = 0; row < call.shape.batch; ++row) {
    const Raw* const scores = static_cast<const Raw*>(call.scores) + row * call.stride;
    MakeOrdersKernel<Scores><<<BlocksFor(n), kThreads, 0, call.stream>>>(scores, n, buffers);
    const cudaError_t error = SortRow(buffers, n, &scratch_bytes, call.stream);
    if (error != cudaSuccess) return error;
    TakeFirstKernel<Scores><<<BlocksFor(k), kThreads, 0, call.stream>>>(
        buffers, k, static_cast<Raw*>(call.values) + row * k, call.indices + row * k);
  }
  return cudaGetLastError();
}

cudaError_t Launch(const SelectCall& call) {
  switch (call.shape.type) {
    case SelectType::kFloat32:
      return LaunchRows<Float32Scores>(call);
    case SelectType::kFloat16:
      return LaunchRows<Float16Scores>(call);
    case SelectType::kBFloat16:
      break;
  }
  return LaunchRows<BFloat16Scores>(call);
}

}  // namespace

extern const SelectAlgorithm kRadixSort = {
    .name = "radix_sort",
    .summary = "CUB's radix sort of every row, one row after the other: for every k",
    .refuses = Refuses,
    .workspace_bytes = WorkspaceBytes,
    .prepare = Prepare,
    .launch = Launch};

}  // namespace nearfield::gpu
