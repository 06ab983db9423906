#include "tests/bench/block_bubble.h"

#include <cuda_runtime.h>

#include <algorithm>
#include <cstddef>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/score/order.h"
#include "engine/score/score.h"

namespace nearfield::bench {
namespace {

constexpr int kThreads = 256;
constexpr int64_t kRowsPerBlock = 1024;  // in the partial selection

// Scores every row. Grid ceil(N / 256), block 256: one thread scores one row and reads it alone, so
// neighboring threads read addresses that are one row apart.
__global__ void ScoreRowsKernel(BlockBubbleRows rows, const float* query, uint64_t* keys) {
  const int64_t row = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (row >= rows.rows_count) return;
  double sums[score::kAccumulators] = {};
  const float* const values = rows.rows + row * rows.dim;
  for (int d = 0; d < rows.dim; d += score::kAccumulators) {
#pragma unroll
    for (int lane = 0; lane < score::kAccumulators; ++lane) {
      if (d + lane < rows.dim) {
        sums[lane] = score::DotStep(query[d + lane], values[d + lane], sums[lane]);
      }
    }
  }
  keys[row] =
      score::OrderKey(score::DotScore(score::ReduceAccumulators(sums)), static_cast<uint32_t>(row));
}

// Keeps the k best keys of a block's rows, sorted. Grid ceil(N / 1024), block 1: the thread bubbles
// each key up.
__global__ void PartialTopKKernel(const uint64_t* keys, int64_t rows_count, int k,
                                  uint64_t* partials) {
  uint64_t* const best = partials + static_cast<int64_t>(blockIdx.x) * k;
  for (int i = 0; i < k; ++i) best[i] = score::kNoKey;
  const int64_t begin = static_cast<int64_t>(blockIdx.x) * kRowsPerBlock;
  const int64_t end = min(begin + kRowsPerBlock, rows_count);
  for (int64_t row = begin; row < end; ++row) {
    const uint64_t key = keys[row];
    if (key <= best[k - 1]) continue;
    int place = k - 1;
    for (; place > 0 && best[place - 1] < key; --place) best[place] = best[place - 1];
    best[place] = key;
  }
}

// Merges the blocks' lists into one. Grid 1, block 1: each result needs one look at the head of
// every list.
__global__ void MergeTopKKernel(const uint64_t* partials, int blocks, int k, int* heads,
                                uint64_t* best) {
  for (int block = 0; block < blocks; ++block) heads[block] = 0;
  for (int i = 0; i < k; ++i) {
    uint64_t greatest = score::kNoKey;
    int from = 0;
    for (int block = 0; block < blocks; ++block) {
      const int head = heads[block];
      const uint64_t key =
          head < k ? partials[static_cast<int64_t>(block) * k + head] : score::kNoKey;
      if (key > greatest) {
        greatest = key;
        from = block;
      }
    }
    best[i] = greatest;
    ++heads[from];
  }
}

absl::Status Check(cudaError_t error, const char* call) {
  if (error == cudaSuccess) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat(call, ": ", cudaGetErrorString(error)));
}

// Device memory that only grows.
class Scratch {
 public:
  absl::StatusOr<void*> AtLeast(size_t bytes) {
    if (bytes <= bytes_) return memory_;
    cudaFree(memory_);
    memory_ = nullptr;
    bytes_ = 0;
    ABSL_RETURN_IF_ERROR(Check(cudaMalloc(&memory_, bytes), "cudaMalloc"));
    bytes_ = bytes;
    return memory_;
  }

 private:
  void* memory_ = nullptr;  // lives as long as the process
  size_t bytes_ = 0;
};

template <typename T>
absl::StatusOr<T*> Take(Scratch& scratch, int64_t count) {
  ABSL_ASSIGN_OR_RETURN(void* const memory,
                        scratch.AtLeast(static_cast<size_t>(count) * sizeof(T)));
  return static_cast<T*>(memory);
}

Neighbors ToNeighbors(const std::vector<uint64_t>& keys) {
  Neighbors neighbors;
  for (const uint64_t key : keys) {
    neighbors.ids.AppendNumber(score::KeyRank(key));
    neighbors.scores.push_back(score::KeyScore(key));
  }
  return neighbors;
}

}  // namespace

absl::StatusOr<Neighbors> BlockBubbleSearch(const BlockBubbleRows& rows,
                                            absl::Span<const float> query, int32_t k) {
  static Scratch query_memory, key_memory, partial_memory, head_memory, best_memory;
  const int kept = static_cast<int>(std::min<int64_t>(k, rows.rows_count));
  if (kept == 0) return ToNeighbors({});
  const auto blocks = static_cast<int>((rows.rows_count + kRowsPerBlock - 1) / kRowsPerBlock);
  ABSL_ASSIGN_OR_RETURN(float* const device_query, Take<float>(query_memory, rows.dim));
  ABSL_ASSIGN_OR_RETURN(uint64_t* const keys, Take<uint64_t>(key_memory, rows.rows_count));
  ABSL_ASSIGN_OR_RETURN(uint64_t* const partials,
                        Take<uint64_t>(partial_memory, int64_t{blocks} * kept));
  ABSL_ASSIGN_OR_RETURN(int* const heads, Take<int>(head_memory, blocks));
  ABSL_ASSIGN_OR_RETURN(uint64_t* const best, Take<uint64_t>(best_memory, kept));
  ABSL_RETURN_IF_ERROR(
      Check(cudaMemcpyAsync(device_query, query.data(), query.size() * sizeof(float),
                            cudaMemcpyHostToDevice, nullptr),
            "cudaMemcpyAsync"));
  const auto score_blocks = static_cast<unsigned>((rows.rows_count + kThreads - 1) / kThreads);
  ScoreRowsKernel<<<score_blocks, kThreads>>>(rows, device_query, keys);
  PartialTopKKernel<<<static_cast<unsigned>(blocks), 1>>>(keys, rows.rows_count, kept, partials);
  MergeTopKKernel<<<1, 1>>>(partials, blocks, kept, heads, best);
  ABSL_RETURN_IF_ERROR(Check(cudaGetLastError(), "launching the baseline"));
  std::vector<uint64_t> result(static_cast<size_t>(kept));
  ABSL_RETURN_IF_ERROR(Check(
      cudaMemcpy(result.data(), best, result.size() * sizeof(uint64_t), cudaMemcpyDeviceToHost),
      "cudaMemcpy"));
  return ToNeighbors(result);
}

}  // namespace nearfield::bench
