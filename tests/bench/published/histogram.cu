// histogram: finds the k-th best score with one histogram of the fp16 images of the scores.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>

#include "engine/topk/digit_select.cuh"
#include "engine/topk/digit_select.h"
#include "engine/topk/digit_window.cuh"
#include "engine/topk/row_batches.cuh"
#include "engine/topk/row_group.cuh"
#include "engine/topk/score_types.cuh"
#include "tests/bench/published/algorithms.h"

namespace nearfield::gpu::published {
namespace {

struct HistogramPolicy {
  uint32_t threads;
  int unroll;     // 16-byte loads in flight per thread
  int bins_log2;  // 256, 512 or 1024 bins; 512: the sign, the exponent and 3 bits of the mantissa
  // Finds the bin of the k-th by a binary search of one thread over the sums of the bins, not by
  // all threads at once.
  bool binary_search;
};

// The first one is the algorithm. The others differ in one value, to show its effect, and select
// fp32 scores alone.
constexpr std::array<HistogramPolicy, 6> kHistogramPolicies = {{
    {.threads = kDigitThreads, .unroll = 8, .bins_log2 = 9, .binary_search = false},
    {.threads = kDigitThreads, .unroll = 1, .bins_log2 = 9, .binary_search = false},
    {.threads = kDigitThreads, .unroll = 4, .bins_log2 = 9, .binary_search = false},
    {.threads = kDigitThreads, .unroll = 8, .bins_log2 = 8, .binary_search = false},
    {.threads = kDigitThreads, .unroll = 8, .bins_log2 = 10, .binary_search = false},
    {.threads = kDigitThreads, .unroll = 8, .bins_log2 = 9, .binary_search = true},
}};

// Returns the bin of a floating-point score: the high bits of its fp16 image, mapped to ascend.
// Rounding is monotone, so a greater score is never in a lower bin. A score that overflows shares
// the bin of infinity. NaN: bin 0, below that of -inf.
template <int kBinsLog2>
__device__ __forceinline__ uint32_t BinOf(float score) {
  static_assert(kBinsLog2 >= 8 && kBinsLog2 <= 10,
                "bin 0 must hold NaN alone, and the bins must fit into shared memory");
  const uint32_t bits = __half_as_ushort(__float2half_rn(score + 0.0f));  // -0 + 0 is +0
  const uint32_t ascending = (bits & 0x8000u) != 0 ? 0xffffu - bits : bits | 0x8000u;
  return isnan(score) ? 0 : ascending >> (16 - kBinsLog2);
}

// The same for the order of an integer: its high bits.
template <int kBinsLog2>
__device__ __forceinline__ uint32_t BinOf(uint32_t order) {
  return order >> (32 - kBinsLog2);
}

// Returns the smallest order (OrderOf) whose score is in `bin` or a higher one; one above the
// highest if there is none. Every thread computes it separately.
template <typename Scores, int kBinsLog2>
__device__ inline uint64_t LeastOrderOf(uint32_t bin) {
  if (bin == 0) return 0;
  uint64_t least = Scores::kLowestOrder;
  uint64_t end = uint64_t{Scores::kHighestOrder} + 1;
  while (least < end) {
    const uint64_t middle = least + (end - least) / 2;
    if (BinOf<kBinsLog2>(Scores::OfOrder(static_cast<uint32_t>(middle))) >= bin) {
      end = middle;
    } else {
      least = middle + 1;
    }
  }
  return least;
}

// Counts the row's scores by bin, into shared.bins.
template <int kUnroll, int kBinsLog2, typename Scores>
__device__ __forceinline__ void CountBins(const RowStripe<Scores>& stripe, DigitShared& shared) {
  ClearBins(shared);
  stripe.template ForEach<kUnroll>([&](const auto& batch) {
    if (!batch.valid()) return;
#pragma unroll
    for (int i = 0; i < batch.kCount; ++i) {
      atomicAdd(&shared.bins[BinOf<kBinsLog2>(batch.Value(i))], 1u);
    }
  });
  __syncthreads();
}

// The same as FindBin: all threads replace the bins by their sums from the highest bin down, and
// one thread searches these.
__device__ inline FoundBin SearchBin(DigitShared& shared, uint32_t needed) {
  const uint4 own = OwnQuad(shared);
  uint32_t sum = 0;
  DigitScan(shared.scan).ExclusiveSum(own.w + own.z + own.y + own.x, sum);
  uint4 reaching;
  reaching.w = sum + own.w;
  reaching.z = reaching.w + own.z;
  reaching.y = reaching.z + own.y;
  reaching.x = reaching.y + own.x;
  reinterpret_cast<uint4*>(shared.bins)[QuadOfThread()] = reaching;
  __syncthreads();
  if (threadIdx.x == 0) {
    uint32_t bin = 0;  // the highest bin that enough scores reach
#pragma unroll 1
    for (uint32_t step = kDigitBinsMax / 2; step > 0; step /= 2) {
      if (shared.bins[bin + step] >= needed) bin += step;
    }
    const uint32_t greater = bin + 1 < kDigitBinsMax ? shared.bins[bin + 1] : 0;
    shared.found = FoundBin{bin, greater, shared.bins[bin] - greater};
  }
  __syncthreads();
  return shared.found;
}

// Selects the k best scores of each row, sorted.
// Grid rows, block 512: one block owns a row.
// Reads each score twice, with `unroll` 16-byte loads in flight per thread. The second read comes
// from L2 if the rows in progress fit into it (264 rows on 132 SMs). Writes 8 B (6 B for 16-bit
// scores) per result. 1024 x 50,000 fp32: 410 MB, 45 to 90 us at 4.53 TB/s.
// Requires: k <= capacity, one block per row.
// Steps: 1 count the fp16 image of every score into 512 bins; 2 sum the bins from the top and find
// the bin of the k-th; 3 if more keys reach it than a block sorts, select by digits of the key
// inside that bin, with one pass over the row per digit; 4 collect the keys that reach the bin or
// the digit; 5 sort, write.
// Source: the 512-bin histogram over fp16 bits of Alpindale's blog on sampling, for k as in top-k
// sampling; its output is the set with only the last bin sorted. Differs: all of the output is
// sorted; an overfull bin is resolved exactly; NaN, infinities and both zeros have defined ranks.
template <typename Scores, int kPolicy>
__global__ void __launch_bounds__(kHistogramPolicies[kPolicy].threads, 2)
    HistogramKernel(const __grid_constant__ DigitSelectArgs args) {
  constexpr int kUnroll = kHistogramPolicies[kPolicy].unroll;
  constexpr int kBinsLog2 = kHistogramPolicies[kPolicy].bins_log2;
  // The second pass keeps scores in registers; the first only counts them.
  constexpr int kCollectUnroll = std::min(kUnroll, 32 / ScoreVector<Scores>::kCount);
  static_assert(kHistogramPolicies[kPolicy].threads == kDigitThreads);
  const ScoreRow<Scores> row = RowAt<Scores>(args.rows, blockIdx.x);
  const RowReader<Scores> reader(row.scores, row.n);
  const RowStripe<Scores> stripe(reader, 0, 1);
  RowGroup alone(args, 1);
  DigitBlock block = {SharedOfBlock(), alone,           row.k,
                      args.capacity,   args.digit_bits, DigitWindow{.candidates = row.n}};
  if (row.n > args.capacity) {
    CountBins<kUnroll, kBinsLog2>(stripe, block.shared);
    const FoundBin found = kHistogramPolicies[kPolicy].binary_search
                               ? SearchBin(block.shared, row.k)
                               : FindBin(block.shared, OwnQuad(block.shared), row.k);
    DigitWindow& window = block.window;
    window.base = LeastOrderOf<Scores, kBinsLog2>(found.bin) << 32;
    // The end may be 2^64, which is 0.
    window.span = (LeastOrderOf<Scores, kBinsLog2>(found.bin + 1) << 32) - 1 - window.base;
    window.above = found.greater;
    window.candidates = found.greater + found.equal;
    NarrowWindow<1>(stripe, args.capacity, block);
  }
  const uint32_t count = CollectShared<kCollectUnroll>(stripe, block);
  SortKeys(count);
  WriteRow(row, block.shared.keys());
}

using Kernel = void (*)(DigitSelectArgs);

template <int kPolicy>
Kernel KernelOf(ScoreType type) {
  if constexpr (kPolicy > 0) return HistogramKernel<Float32Scores, kPolicy>;
  return WithScores(type,
                    [](auto scores) -> Kernel { return HistogramKernel<decltype(scores), 0>; });
}

const char* Refuses(const SelectShape& shape, const SelectDevice& device) {
  return DigitSelectRefuses(shape.k, device);
}

const char* VariantRefuses(const SelectShape& shape, const SelectDevice& device) {
  if (shape.type != ScoreType::kFloat32) return "type: a variant of histogram selects fp32 alone";
  return Refuses(shape, device);
}

int64_t WorkspaceBytes(const SelectShape&, const SelectDevice&) { return kSelectStateBytes; }

template <int kPolicy>
cudaError_t Prepare(const SelectDevice& device) {
  for (const ScoreType type : kScoreTypes) {
    const cudaError_t error = PrepareDigitKernel(KernelOf<kPolicy>(type), device);
    if (error != cudaSuccess) return error;
  }
  return cudaSuccess;
}

template <int kPolicy>
cudaError_t Launch(const SelectCall& call) {
  DigitPlan plan;  // one block per row, in shared memory alone
  plan.rows = call.shape.batch;
  plan.args.rows = call.rows;
  plan.args.digit_bits = kDigitBitsMax;
  plan.args.capacity = DigitCapacityOf(call.shape.k);
  return LaunchDigitKernel(KernelOf<kPolicy>(call.shape.type), plan, nullptr, call.stream);
}

template <int kPolicy>
constexpr SelectAlgorithm Variant(const char* name, const char* summary) {
  return {.name = name,
          .summary = summary,
          .refuses = VariantRefuses,
          .workspace_bytes = WorkspaceBytes,
          .prepare = Prepare<kPolicy>,
          .launch = Launch<kPolicy>};
}

}  // namespace

extern const SelectAlgorithm kHistogram = {
    .name = "histogram",
    .summary =
        "512 bins over the fp16 image of the scores give the bin of the k-th; what reaches "
        "it is collected and sorted",
    .refuses = Refuses,
    .workspace_bytes = WorkspaceBytes,
    .prepare = Prepare<0>,
    .launch = Launch<0>};

extern const SelectAlgorithm kHistogramUnroll1 =
    Variant<1>("histogram_unroll1", "histogram with one load in flight a thread");
extern const SelectAlgorithm kHistogramUnroll4 =
    Variant<2>("histogram_unroll4", "histogram with four loads in flight a thread");
extern const SelectAlgorithm kHistogram256Bins =
    Variant<3>("histogram_256_bins", "histogram with 256 bins");
extern const SelectAlgorithm kHistogram1024Bins =
    Variant<4>("histogram_1024_bins", "histogram with 1,024 bins");
extern const SelectAlgorithm kHistogramBinarySearch = Variant<5>(
    "histogram_binary_search", "histogram in which one thread searches the bin of the k-th");

}  // namespace nearfield::gpu::published
