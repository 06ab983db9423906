// radix_sort: sorts whole rows. It serves every k, and is not the fastest where another algorithm
// applies.
//
// Many short rows are sorted as one: their keys begin with the number of the row.
#include <algorithm>
#include <bit>
#include <cstdint>

#include "engine/topk/algorithm.h"
#include "engine/topk/key_sort.h"
#include "engine/topk/score_rows.cuh"
#include "engine/topk/score_types.cuh"

namespace nearfield::gpu {
namespace {

// Limits of one sort: enough keys to fill the device, in 64 MB, and so few rows that their numbers
// cost one pass of 8 bits.
constexpr int64_t kKeysAtOnce = int64_t{1} << 22;
constexpr int64_t kRowsAtOnce = 256;

constexpr int kThreads = 256;
constexpr int64_t kPerBlock = 4096;
constexpr int64_t kBlocksPerRowMax = 4096;

struct SortPlan {
  int64_t rows = 0;  // sorted together
  int row_bits = 0;  // bits of a row's number
  int64_t keys_bytes = 0;
  int64_t scratch_bytes = 0;
};

SortPlan PlanSort(const SelectShape& shape) {
  SortPlan plan;
  plan.rows = std::clamp<int64_t>(kKeysAtOnce / shape.n, 1, std::min(shape.batch, kRowsAtOnce));
  plan.row_bits = static_cast<int>(std::bit_width(static_cast<uint64_t>(plan.rows - 1)));
  plan.keys_bytes = RoundUpTo256(plan.rows * shape.n * 8);
  plan.scratch_bytes = KeySortScratchBytes(plan.rows * shape.n);
  return plan;
}

// key = number of the row << (64 - row_bits) | order << (32 - row_bits) | the low 32 - row_bits
// bits of ~index. These hold the index: if several rows are sorted together, none has more than
// 2^21 scores. Rows are numbered from the last, because larger keys come first.
struct RowKeys {
  int row_bits;

  __device__ uint64_t Begin(uint32_t row, uint32_t rows) const {
    // Two shifts, because with row_bits = 0 one shift by 64 would be undefined.
    return uint64_t{rows - 1 - row} << (63 - row_bits) << 1;
  }
  __device__ uint64_t Key(uint64_t begin, uint32_t order, uint32_t index) const {
    return begin | (uint64_t{order} << 32 | ~index << row_bits) >> row_bits;
  }
  __device__ uint32_t Order(uint64_t key) const { return KeyOrder(key << row_bits); }
  __device__ uint32_t Index(uint64_t key) const { return KeyIndex(key) & (~0u >> row_bits); }
};

// Some rows of a call.
struct SortRows {
  ScoreRows rows;
  uint64_t* keys = nullptr;          // [rows, n]
  const uint64_t* sorted = nullptr;  // [rows, n]
  RowKeys row_keys = {};
};

// Turns rows of scores into keys, each filled up with its smallest key to n keys.
// Grid (blocks per row, rows), block 256: the blocks of a row stride over it together.
// Reads a score and writes 8 B each: 12 B per fp32 score, 2.8 us for 1M at 4.31 TB/s.
// Requires: rows <= 2^row_bits, n <= 2^(32 - row_bits).
// Steps: one, for every score.
// Source: none; elementwise.
template <typename Scores>
__global__ void __launch_bounds__(kThreads)
    MakeRowKeysKernel(const __grid_constant__ SortRows sort) {
  const ScoreRow<Scores> row = RowAt<Scores>(sort.rows, blockIdx.y);
  const int64_t n = sort.rows.n;
  uint64_t* const keys = sort.keys + blockIdx.y * n;
  const uint64_t begin = sort.row_keys.Begin(blockIdx.y, gridDim.y);
  const int64_t step = int64_t{gridDim.x} * kThreads;
  for (int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x; i < n; i += step) {
    keys[i] = i < row.n ? sort.row_keys.Key(begin, OrderOf(Scores::Value(row.scores[i])),
                                            static_cast<uint32_t>(i))
                        : begin;
  }
}

// Writes the scores and indices of the first k keys of each sorted row.
// Grid (blocks per row, rows), block 256: the blocks of a row stride over its answer together.
// Reads 8 B and writes 8 B (6 B for 16-bit scores) per result.
// Requires: k <= n.
// Steps: one, for every result.
// Source: none; elementwise.
template <typename Scores>
__global__ void __launch_bounds__(kThreads) TakeFirstKernel(const __grid_constant__ SortRows sort) {
  const ScoreRow<Scores> row = RowAt<Scores>(sort.rows, blockIdx.y);
  const uint64_t* const sorted = sort.sorted + int64_t{blockIdx.y} * sort.rows.n;
  const uint32_t step = gridDim.x * kThreads;
  for (uint64_t i = uint64_t{blockIdx.x} * kThreads + threadIdx.x; i < row.places; i += step) {
    const auto rank = static_cast<uint32_t>(i);
    if (rank < row.k) {
      const uint64_t order = sort.row_keys.Order(sorted[rank]);
      row.results.Key(rank, order << 32 | ~sort.row_keys.Index(sorted[rank]));
    } else {
      row.results.None(rank);
    }
  }
}

dim3 GridFor(int64_t items, int64_t rows) {
  const int64_t blocks =
      std::clamp<int64_t>((items + kPerBlock - 1) / kPerBlock, 1, kBlocksPerRowMax);
  return {static_cast<unsigned>(blocks), static_cast<unsigned>(rows)};
}

const char* Refuses(const SelectShape&, const SelectDevice&) { return nullptr; }

int64_t WorkspaceBytes(const SelectShape& shape, const SelectDevice&) {
  const SortPlan plan = PlanSort(shape);
  return kSelectStateBytes + 2 * plan.keys_bytes + plan.scratch_bytes;
}

cudaError_t Prepare(const SelectDevice&) { return cudaSuccess; }

// Sorts rows [begin, begin + count) of the call, and writes their answers.
template <typename Scores>
cudaError_t LaunchRows(const SelectCall& call, const SortPlan& plan, int64_t begin, int64_t count) {
  const SelectShape& shape = call.shape;
  char* const memory = call.workspace + kSelectStateBytes;
  SortRows rows = {.rows = call.rows.From(begin, shape.type),
                   .keys = reinterpret_cast<uint64_t*>(memory),
                   .row_keys = {plan.row_bits}};
  MakeRowKeysKernel<Scores><<<GridFor(shape.n, count), kThreads, 0, call.stream>>>(rows);
  // The keys start in index order, and the sort is stable: equal scores stay in that order.
  const KeySort sort = {.keys = rows.keys,
                        .other = reinterpret_cast<uint64_t*>(memory + plan.keys_bytes),
                        .scratch = memory + 2 * plan.keys_bytes,
                        .scratch_bytes = plan.scratch_bytes,
                        .count = count * shape.n,
                        .begin_bit = 32 - plan.row_bits + Scores::kIdleOrderBits};
  const cudaError_t error = LaunchKeySort(sort, call.stream, &rows.sorted);
  if (error != cudaSuccess) return error;
  TakeFirstKernel<Scores><<<GridFor(shape.k, count), kThreads, 0, call.stream>>>(rows);
  return cudaGetLastError();
}

cudaError_t Launch(const SelectCall& call) {
  const SortPlan plan = PlanSort(call.shape);
  cudaError_t error = cudaSuccess;
  for (int64_t begin = 0; begin < call.shape.batch && error == cudaSuccess; begin += plan.rows) {
    const int64_t count = std::min(plan.rows, call.shape.batch - begin);
    error = WithScores(call.shape.type, [&](auto scores) {
      return LaunchRows<decltype(scores)>(call, plan, begin, count);
    });
  }
  return error;
}

}  // namespace

extern const SelectAlgorithm kRadixSort = {
    .name = "radix_sort",
    .summary = "CUB's radix sort of whole rows, short rows many at once: for every k",
    .refuses = Refuses,
    .workspace_bytes = WorkspaceBytes,
    .prepare = Prepare,
    .launch = Launch};

}  // namespace nearfield::gpu
