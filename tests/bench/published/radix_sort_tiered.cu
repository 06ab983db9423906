// radix_sort_tiered: filters with CUB's radix sort on the high bits of the scores, then selects
// exactly from the keys that it puts in front.
#include <algorithm>
#include <array>
#include <cstdint>

#include "engine/topk/digit_select.cuh"
#include "engine/topk/digit_select.h"
#include "engine/topk/digit_window.cuh"
#include "engine/topk/row_batches.cuh"
#include "engine/topk/row_group.cuh"
#include "engine/topk/score_types.cuh"
#include "tests/bench/published/algorithms.h"
#include "tests/bench/published/row_sort.h"

namespace nearfield::gpu::published {
namespace {

// Low bits of the scores that the sort omits, by n: the longer the row, the more a pass over it
// costs. A pass sorts 8 bits. Ascending n_max.
struct TieredPolicy {
  int64_t n_max;
  int begin_bit;
};
constexpr std::array<TieredPolicy, 3> kTieredPolicies = {{
    {.n_max = 2048, .begin_bit = 0},
    {.n_max = 8192, .begin_bit = 8},
    {.n_max = INT64_MAX, .begin_bit = 16},
}};

// No copies of candidates: a large group of keys in front is read again.
constexpr DigitPolicy kFinishPolicy = {.digit_bits = kDigitBitsMax,
                                       .keys_per_block = 16384,
                                       .compact_n_min = INT64_MAX,
                                       .compact_part = 1};

// Returns the number of low bits of an order (OrderOf) that never distinguish two scores of the
// type.
int IdleOrderBits(ScoreType type) {
  return WithScores(type, [](auto scores) { return decltype(scores)::kIdleOrderBits; });
}

int BeginBitOf(const SelectShape& shape) {
  const auto* const policy =
      std::find_if(kTieredPolicies.begin(), kTieredPolicies.end(),
                   [&](const TieredPolicy& tier) { return shape.n <= tier.n_max; });
  return std::max(policy->begin_bit, IdleOrderBits(shape.type));
}

// Returns the end of the keys whose high bits reach those of the k-th: all of the k best lie before
// it. Requires: keys[0, n) descend by their high bits. All threads of the block call it; the result
// is the same in all.
__device__ inline uint32_t EndOfReaching(const uint64_t* keys, uint32_t n, uint32_t k, int shift) {
  const uint64_t least = keys[k - 1] >> shift;
  uint64_t begin = k;  // all keys before it reach it
  uint64_t end = n;    // no key at `end` or after it does
  while (begin < end) {
    const uint64_t step = (end - begin - 1) / kDigitThreads + 1;
    const uint64_t probe = begin + threadIdx.x * step;
    const int reaching = __syncthreads_count(probe < end && keys[probe] >> shift >= least);
    if (reaching == 0) break;
    const uint64_t last = begin + static_cast<uint64_t>(reaching - 1) * step;  // reaches it
    begin = last + 1;
    end = min(end, last + step);
  }
  return static_cast<uint32_t>(begin);
}

// The keys of the rows after the sort.
struct SortedKeys {
  const uint64_t* keys = nullptr;  // [rows, n]
  int32_t from_bit = 0;            // lowest bit that they are sorted by; 0: all significant bits
  ScoreType type = ScoreType::kFloat32;
};

struct WriteAnswer {
  const ScoreRows& rows;
  int64_t row;
  const uint64_t* keys;

  template <typename Scores>
  __device__ void operator()(Scores) const {
    WriteRow(RowAt<Scores>(rows, row), keys);
  }
};

// Selects the k best keys of each row of keys sorted by their high bits, and writes their scores.
// Grid rows * blocks_per_row, block 512: a row is owned by one block, or by a group of blocks that
// meet at barriers in device memory; the launch is then cooperative. A group works together only if
// more keys are in front than one block sorts.
// Reads k keys and those that share their high bits with the k-th, 8 B each: once if one block
// sorts them, else once per pass (6 at most) and once to collect. Writes 8 B (6 B for 16-bit
// scores) per result. 1 x 1M, k = 1000: microseconds; all scores equal: up to 7 times 8 MB, 13 us.
// Requires: k <= capacity; high bits: bit sorted.from_bit and those above it.
// Steps: 1 find the end of the keys that reach the high bits of the k-th; 2 select by digits among
// them; 3 sort, write.
// Source: radix sort on a part of the bits as a top-k, as in Dogacel's blog of 2026, where the keys
// that the sort puts in front are taken as the answer. Differs: here the sort is only a filter.
__global__ void __launch_bounds__(kDigitThreads, 2)
    FinishTieredKernel(const __grid_constant__ DigitSelectArgs args,
                       const __grid_constant__ SortedKeys sorted) {
  const auto blocks = static_cast<uint32_t>(args.blocks_per_row);
  const uint64_t row = blockIdx.x / blocks;
  const uint64_t* const keys = sorted.keys + row * args.rows.n;
  const uint32_t k = min(args.rows.k, BoundsOf(args.rows.row_begin, args.rows.row_end, args.rows.n,
                                               static_cast<int64_t>(row))
                                          .size);
  const bool is_sorted = k == 0 || sorted.from_bit == 0;
  const uint32_t n = is_sorted ? k : EndOfReaching(keys, args.rows.n, k, sorted.from_bit);
  const bool alone = n <= args.capacity;
  if (alone && blockIdx.x % blocks != 0) return;
  RowGroup group(args, alone ? 1 : blocks);
  DigitBlock block = {SharedOfBlock(), group,           k,
                      args.capacity,   args.digit_bits, DigitWindow{.candidates = n}};
  if (!SelectRow<kKeysUnroll>(args, row, KeyStripe(keys, n, group.rank(), group.size()), block)) {
    return;
  }
  WithScores(sorted.type, WriteAnswer{args.rows, static_cast<int64_t>(row), block.shared.keys()});
}

const char* Refuses(const SelectShape& shape, const SelectDevice& device) {
  return DigitSelectRefuses(shape.k, device);
}

DigitPlan PlanFinish(const SelectShape& shape, const SelectDevice& device, int64_t rows) {
  SelectShape part = shape;
  part.batch = rows;
  return PlanDigitSelect(part, device, kFinishPolicy);
}

int64_t WorkspaceBytes(const SelectShape& shape, const SelectDevice& device) {
  const RowSortPlan sort = PlanRowSort(shape);
  int64_t finish_bytes = PlanFinish(shape, device, sort.rows).bytes();
  // The last group of rows may be smaller, and then has more blocks per row.
  const int64_t rest = shape.batch % sort.rows;
  if (rest > 0) finish_bytes = std::max(finish_bytes, PlanFinish(shape, device, rest).bytes());
  return kSelectStateBytes + sort.bytes() + finish_bytes;
}

cudaError_t Prepare(const SelectDevice& device) {
  return PrepareDigitKernel(FinishTieredKernel, device);
}

cudaError_t Launch(const SelectCall& call) {
  const SelectShape& shape = call.shape;
  const RowSortPlan sort = PlanRowSort(shape);
  const int begin_bit = BeginBitOf(shape);
  char* const memory = call.workspace + kSelectStateBytes + sort.bytes();
  RowRange range;
  for (; range.begin < shape.batch; range.begin += sort.rows) {
    range.rows = std::min(sort.rows, shape.batch - range.begin);
    SortedKeys sorted = {.from_bit = begin_bit > IdleOrderBits(shape.type) ? 32 + begin_bit : 0,
                         .type = shape.type};
    cudaError_t error = LaunchRowSort(call, sort, range, begin_bit, &sorted.keys);
    if (error != cudaSuccess) return error;
    DigitPlan plan = PlanFinish(shape, call.device, range.rows);
    plan.args.rows = call.rows.From(range.begin, shape.type);
    error = LaunchDigitKernel(FinishTieredKernel, plan, memory, call.stream, sorted);
    if (error != cudaSuccess) return error;
  }
  return cudaSuccess;
}

}  // namespace

extern const SelectAlgorithm kRadixSortTiered = {
    .name = "radix_sort_tiered",
    .summary =
        "CUB's radix sort on the high bits of the scores, fewer for longer rows; the k best "
        "are selected exactly from what it leaves in front",
    .refuses = Refuses,
    .workspace_bytes = WorkspaceBytes,
    .prepare = Prepare,
    .launch = Launch};

}  // namespace nearfield::gpu::published
