#include "tests/bench/select_block_bubble.h"

#include "tests/bench/select_cuda.h"
#include "tests/bench/select_keys.cuh"

namespace nearfield::bench {
namespace {

constexpr int64_t kRowsPerBlock = 1024;  // scores that one thread reads
constexpr int64_t kColumnsMax = 1'000'000;
constexpr int64_t kWorkMax = 300'000'000;  // n * k: about 30 ms
constexpr uint64_t kNoKey = 0;             // below every key: an index is at most 2^32 - 2 here

int64_t Blocks(const select::Shape& shape) { return (shape.n + kRowsPerBlock - 1) / kRowsPerBlock; }

// Keeps the k best keys of a block's scores, sorted.
// Grid ceil(n / 1024), block 1: the thread inserts each key by bubbling.
// Reads n fp32 once; writes and shifts in partials[blocks][k], which stay in cache.
// Requires: k >= 1.
__global__ void PartialTopKKernel(const float* scores, int64_t n, int64_t k, uint64_t* partials) {
  uint64_t* const best = partials + static_cast<int64_t>(blockIdx.x) * k;
  for (int64_t i = 0; i < k; ++i) best[i] = kNoKey;
  const int64_t begin = static_cast<int64_t>(blockIdx.x) * kRowsPerBlock;
  const int64_t end = min(begin + kRowsPerBlock, n);
  for (int64_t column = begin; column < end; ++column) {
    const uint64_t key = SortKey(scores[column], static_cast<uint32_t>(column));
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

// Merges the blocks' lists into one.
// Grid 1, block 1: reads the head of every list for each result.
// Reads k * lists keys of 8 bytes, most of them from cache; writes k values and k indices.
// Requires: k <= n, so that every result has a key.
__global__ void MergeTopKKernel(Lists lists, const float* scores, float* values,
                                uint32_t* indices) {
  for (int64_t list = 0; list < lists.count; ++list) lists.heads[list] = 0;
  for (int64_t i = 0; i < lists.k; ++i) {
    uint64_t greatest = kNoKey;
    int64_t from = 0;
    for (int64_t list = 0; list < lists.count; ++list) {
      const int64_t head = lists.heads[list];
      const uint64_t key = head < lists.k ? lists.partials[list * lists.k + head] : kNoKey;
      if (key > greatest) {
        greatest = key;
        from = list;
      }
    }
    ++lists.heads[from];
    const uint32_t index = IndexOf(greatest);
    indices[i] = index;
    values[i] = __uint_as_float(ResultBits(scores[index]));
  }
}

}  // namespace

bool BlockBubbleSupports(const select::Shape& shape) {
  return shape.type == RowType::kFloat32 && shape.batch == 1 && shape.n <= kColumnsMax &&
         shape.n * shape.k <= kWorkMax;
}

int64_t BlockBubbleWorkspaceBytes(const select::Shape& shape) {
  return Blocks(shape) * (shape.k + 1) * static_cast<int64_t>(sizeof(uint64_t));
}

absl::Status BlockBubbleSelect(const select::Shape& shape, const select::Buffers& buffers,
                               cudaStream_t stream) {
  if (!BlockBubbleSupports(shape) || buffers.workspace_bytes < BlockBubbleWorkspaceBytes(shape))
    return absl::InvalidArgumentError("block_bubble: not this shape, or too small a workspace");
  const int64_t blocks = Blocks(shape);
  auto* const partials = static_cast<uint64_t*>(buffers.workspace);
  const auto* const scores = static_cast<const float*>(buffers.scores);
  const Lists lists = {.partials = partials,
                       .heads = reinterpret_cast<int64_t*>(partials + blocks * shape.k),
                       .count = blocks,
                       .k = shape.k};
  PartialTopKKernel<<<static_cast<unsigned>(blocks), 1, 0, stream>>>(scores, shape.n, shape.k,
                                                                     partials);
  MergeTopKKernel<<<1, 1, 0, stream>>>(lists, scores, static_cast<float*>(buffers.values),
                                       buffers.indices);
  return CheckCuda(cudaGetLastError(), "launching block_bubble");
}

}  // namespace nearfield::bench
