#include "tests/bench/published/row_sort.h"

#include <cub/device/device_segmented_radix_sort.cuh>

#include <algorithm>
#include <cstddef>

#include "engine/topk/key_sort.h"
#include "engine/topk/score_rows.cuh"
#include "engine/topk/score_types.cuh"

namespace nearfield::gpu::published {
namespace {

// Rows up to kSegmentedNMax are sorted in one launch, with one block per row and up to
// kSegmentedKeys keys in total. If there are few of them, the whole device sorts one row after the
// other.
constexpr int64_t kSegmentedNMax = 65536;
constexpr int64_t kSegmentedBatchMin = 8;
constexpr int64_t kSegmentedKeys = int64_t{1} << 25;

constexpr int kThreads = 256;
constexpr int64_t kScoresPerBlock = 4096;
constexpr int64_t kBlocksPerRowMax = 4096;

// Begins of the rows' keys, in the form that CUB requires.
struct RowBegins {
  int n;
  int first;
  __host__ __device__ int operator[](int row) const { return (row + first) * n; }
};

// Turns rows of scores into keys, each filled up with kNoSelectKey to n keys.
// Grid rows * blocks_per_row, block 256: the blocks of a row stride over it together.
// Reads a score and writes 8 B each: 12 B per fp32 score, 2.8 us for 1M at 4.31 TB/s.
// Requires: gridDim.x == rows * blocks_per_row.
// Steps: one, for every score.
// Source: none; a map.
template <typename Scores>
__global__ void __launch_bounds__(kThreads)
    MakeKeysKernel(const __grid_constant__ ScoreRows rows, uint32_t blocks_per_row,
                   uint64_t* keys) {
  const int64_t number = blockIdx.x / blocks_per_row;
  const ScoreRow<Scores> row = RowAt<Scores>(rows, number);
  uint64_t* const to = keys + number * rows.n;
  const uint64_t step = uint64_t{blocks_per_row} * kThreads;
  for (uint64_t i = uint64_t{blockIdx.x % blocks_per_row} * kThreads + threadIdx.x; i < rows.n;
       i += step) {
    to[i] =
        i < row.n ? KeyOf(Scores::Value(row.scores[i]), static_cast<uint32_t>(i)) : kNoSelectKey;
  }
}

template <typename Scores>
cudaError_t MakeKeys(const SelectCall& call, RowRange range, uint64_t* keys) {
  const int64_t n = call.shape.n;
  const int64_t blocks =
      std::clamp<int64_t>((n + kScoresPerBlock - 1) / kScoresPerBlock, 1, kBlocksPerRowMax);
  MakeKeysKernel<Scores><<<static_cast<unsigned>(range.rows * blocks), kThreads, 0, call.stream>>>(
      call.rows.From(range.begin, call.shape.type), static_cast<uint32_t>(blocks), keys);
  return cudaGetLastError();
}

// Like LaunchKeySort, but sorts each n keys separately, with one block each.
cudaError_t SortSegments(const KeySort& sort, int n, cudaStream_t stream, const uint64_t** sorted) {
  cub::DoubleBuffer<uint64_t> keys(sort.keys, sort.other);
  const auto count = static_cast<int>(sort.count);
  const auto launch = [&](void* scratch, std::size_t* bytes) {
    return cub::DeviceSegmentedRadixSort::SortKeysDescending(
        scratch, *bytes, keys, count, count / n, RowBegins{n, 0}, RowBegins{n, 1}, sort.begin_bit,
        64, stream);
  };
  std::size_t needed = 0;
  cudaError_t error = launch(nullptr, &needed);
  if (error != cudaSuccess) return error;
  auto scratch_bytes = static_cast<std::size_t>(sort.scratch_bytes);
  if (needed > scratch_bytes) return cudaErrorInvalidValue;
  error = launch(sort.scratch, &scratch_bytes);
  *sorted = keys.Current();
  return error;
}

}  // namespace

RowSortPlan PlanRowSort(const SelectShape& shape) {
  RowSortPlan plan;
  plan.segmented = shape.n <= kSegmentedNMax && shape.batch >= kSegmentedBatchMin;
  plan.rows = plan.segmented ? std::min(shape.batch, kSegmentedKeys / shape.n) : 1;
  plan.keys_bytes = RoundUpTo256(plan.rows * shape.n * 8);
  plan.scratch_bytes = plan.segmented ? 8192 : KeySortScratchBytes(shape.n);
  return plan;
}

cudaError_t LaunchRowSort(const SelectCall& call, const RowSortPlan& plan, RowRange range,
                          int begin_bit, const uint64_t** sorted) {
  char* const memory = call.workspace + kSelectStateBytes;
  const KeySort sort = {.keys = reinterpret_cast<uint64_t*>(memory),
                        .other = reinterpret_cast<uint64_t*>(memory + plan.keys_bytes),
                        .scratch = memory + 2 * plan.keys_bytes,
                        .scratch_bytes = plan.scratch_bytes,
                        .count = range.rows * call.shape.n,
                        .begin_bit = 32 + begin_bit};
  const cudaError_t error = WithScores(call.shape.type, [&](auto scores) {
    return MakeKeys<decltype(scores)>(call, range, sort.keys);
  });
  if (error != cudaSuccess) return error;
  if (!plan.segmented) return LaunchKeySort(sort, call.stream, sorted);
  return SortSegments(sort, static_cast<int>(call.shape.n), call.stream, sorted);
}

}  // namespace nearfield::gpu::published
