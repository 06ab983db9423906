#include "tests/bench/block_bubble.h"

#include <cuda_runtime.h>

#include <algorithm>
#include <vector>

#include "engine/base/status_macros.h"
#include "engine/score/order.h"
#include "engine/score/score.h"
#include "tests/bench/select_keys.cuh"
#include "tests/engine/topk/kit/select_cuda.h"

namespace nearfield::bench {
namespace {

using select::CheckCuda;

constexpr int kThreads = 256;
constexpr int64_t kRowsPerBlock = 1024;  // in the partial selection
constexpr int64_t kColumnsMax = 1'000'000;
constexpr int64_t kWorkMax = 300'000'000;  // n * k: about 30 ms

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

// Keys as ScoreRowsKernel stored them.
struct StoredKeys {
  __device__ uint64_t operator()(int64_t row) const { return keys[row]; }
  const uint64_t* keys;
};

// Keys made from scores.
struct KeysOfScores {
  __device__ uint64_t operator()(int64_t column) const {
    return SortKey(scores[column], static_cast<uint32_t>(column));
  }
  const float* scores;
};

// Keeps the k best of a block's keys, sorted. Grid ceil(count / 1024), block 1: the thread bubbles
// each key up. Reads count keys once; writes and shifts in partials[blocks][k], which stay in
// cache. Requires: k >= 1.
template <typename KeyAt>
__global__ void PartialTopKKernel(KeyAt key_at, int64_t count, int64_t k, uint64_t* partials) {
  uint64_t* const best = partials + static_cast<int64_t>(blockIdx.x) * k;
  for (int64_t i = 0; i < k; ++i) best[i] = score::kNoKey;
  const int64_t begin = static_cast<int64_t>(blockIdx.x) * kRowsPerBlock;
  const int64_t end = min(begin + kRowsPerBlock, count);
  for (int64_t at = begin; at < end; ++at) {
    const uint64_t key = key_at(at);
    if (key <= best[k - 1]) continue;
    int64_t place = k - 1;
    for (; place > 0 && best[place - 1] < key; --place) best[place] = best[place - 1];
    best[place] = key;
  }
}

struct Lists {
  const uint64_t* partials;  // [count, k]
  int64_t* heads;            // [count]
  int64_t count;
  int64_t k;
};

// Stores the keys themselves.
struct PutKey {
  __device__ void operator()(int64_t i, uint64_t key) const { best[i] = key; }
  uint64_t* best;
};

// Stores the value and the index of each key.
struct PutResult {
  __device__ void operator()(int64_t i, uint64_t key) const {
    const uint32_t index = IndexOf(key);
    indices[i] = index;
    values[i] = __uint_as_float(ResultBits(scores[index]));
  }
  const float* scores;
  float* values;
  uint32_t* indices;
};

// Merges the blocks' lists into one. Grid 1, block 1: reads the head of every list for each result.
// Reads k * lists keys of 8 bytes, most of them from cache. Requires: at least k keys in the lists.
template <typename Put>
__global__ void MergeTopKKernel(Lists lists, Put put) {
  for (int64_t list = 0; list < lists.count; ++list) lists.heads[list] = 0;
  for (int64_t i = 0; i < lists.k; ++i) {
    uint64_t greatest = score::kNoKey;
    int64_t from = 0;
    for (int64_t list = 0; list < lists.count; ++list) {
      const int64_t head = lists.heads[list];
      const uint64_t key = head < lists.k ? lists.partials[list * lists.k + head] : score::kNoKey;
      if (key > greatest) {
        greatest = key;
        from = list;
      }
    }
    ++lists.heads[from];
    put(i, greatest);
  }
}

int64_t Blocks(int64_t count) { return (count + kRowsPerBlock - 1) / kRowsPerBlock; }

// Keys and heads of the lists of every block.
int64_t ListBytes(int64_t count, int64_t k) {
  return Blocks(count) * (k + 1) * static_cast<int64_t>(sizeof(uint64_t));
}

// Enqueues both kernels. `lists` is device memory of ListBytes.
template <typename KeyAt, typename Put>
absl::Status Select(KeyAt key_at, int64_t count, int64_t k, void* lists, Put put,
                    cudaStream_t stream) {
  const int64_t blocks = Blocks(count);
  auto* const partials = static_cast<uint64_t*>(lists);
  PartialTopKKernel<<<static_cast<unsigned>(blocks), 1, 0, stream>>>(key_at, count, k, partials);
  MergeTopKKernel<<<1, 1, 0, stream>>>(
      Lists{.partials = partials,
            .heads = reinterpret_cast<int64_t*>(partials + blocks * k),
            .count = blocks,
            .k = k},
      put);
  return CheckCuda(cudaGetLastError(), "launching block_bubble");
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
  // They live as long as the process.
  static auto& query_memory = *new select::DeviceMemory;
  static auto& key_memory = *new select::DeviceMemory;
  static auto& list_memory = *new select::DeviceMemory;
  static auto& best_memory = *new select::DeviceMemory;
  constexpr auto kKeyBytes = static_cast<int64_t>(sizeof(uint64_t));
  const int64_t kept = std::min<int64_t>(k, rows.rows_count);
  if (kept == 0) return ToNeighbors({});
  ABSL_RETURN_IF_ERROR(query_memory.Reserve(rows.dim * static_cast<int64_t>(sizeof(float))));
  ABSL_RETURN_IF_ERROR(key_memory.Reserve(rows.rows_count * kKeyBytes));
  ABSL_RETURN_IF_ERROR(list_memory.Reserve(ListBytes(rows.rows_count, kept)));
  ABSL_RETURN_IF_ERROR(best_memory.Reserve(kept * kKeyBytes));
  ABSL_RETURN_IF_ERROR(
      CheckCuda(cudaMemcpyAsync(query_memory.as<void>(), query.data(), query.size() * sizeof(float),
                                cudaMemcpyHostToDevice, nullptr),
                "cudaMemcpyAsync"));
  auto* const keys = key_memory.as<uint64_t>();
  auto* const best = best_memory.as<uint64_t>();
  const auto score_blocks = static_cast<unsigned>((rows.rows_count + kThreads - 1) / kThreads);
  ScoreRowsKernel<<<score_blocks, kThreads>>>(rows, query_memory.as<float>(), keys);
  ABSL_RETURN_IF_ERROR(Select(StoredKeys{keys}, rows.rows_count, kept, list_memory.as<void>(),
                              PutKey{best}, /*stream=*/nullptr));
  ABSL_ASSIGN_OR_RETURN(const std::vector<uint64_t> result,
                        select::Download(best, kept, /*stream=*/nullptr));
  return ToNeighbors(result);
}

bool BlockBubbleSupports(const select::Shape& shape) {
  return shape.type == ScoreType::kFloat32 && shape.batch == 1 && shape.n <= kColumnsMax &&
         shape.n * shape.k <= kWorkMax;
}

int64_t BlockBubbleWorkspaceBytes(const select::Shape& shape) {
  return ListBytes(shape.n, shape.k);
}

absl::Status BlockBubbleSelect(const select::Shape& shape, const select::Buffers& buffers,
                               cudaStream_t stream) {
  if (!BlockBubbleSupports(shape) || buffers.workspace_bytes < BlockBubbleWorkspaceBytes(shape))
    return absl::InvalidArgumentError("block_bubble: not this shape, or too small a workspace");
  const auto* const scores = static_cast<const float*>(buffers.scores);
  const PutResult put = {
      .scores = scores, .values = static_cast<float*>(buffers.values), .indices = buffers.indices};
  return Select(KeysOfScores{scores}, shape.n, shape.k, buffers.workspace, put, stream);
}

}  // namespace nearfield::bench
