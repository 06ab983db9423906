// histogram: finds the k-th best score with one histogram of the fp16 images of the scores.
#include "engine/topk/published/histogram.h"

#include <algorithm>
#include <cmath>

#include "engine/topk/published/digit_select.cuh"
#include "engine/topk/published/digit_window.cuh"
#include "engine/topk/published/row_batches.cuh"
#include "engine/topk/published/row_group.cuh"
#include "engine/topk/score_types.cuh"

namespace nearfield::gpu {
namespace {

// Returns the bin of a score: the high bits of its fp16 image, mapped to ascend. Rounding is
// monotone, so a greater score is never in a lower bin. A score that overflows shares the bin of
// infinity. NaN: bin 0, below that of -inf.
template <int kBinsLog2>
__device__ __forceinline__ uint32_t BinOf(float score) {
  static_assert(kBinsLog2 >= 8 && kBinsLog2 <= 10,
                "bin 0 must hold NaN alone, and the bins must fit into shared memory");
  const uint32_t bits = __half_as_ushort(__float2half_rn(score + 0.0f));  // -0 + 0 is +0
  const uint32_t ascending = (bits & 0x8000u) != 0 ? 0xffffu - bits : bits | 0x8000u;
  return isnan(score) ? 0 : ascending >> (16 - kBinsLog2);
}

// Returns the smallest order (OrderOf) whose score is in `bin` or a higher one; one above that of
// +inf if there is none. Every thread computes it by itself.
template <int kBinsLog2>
__device__ inline uint32_t LeastOrderOf(uint32_t bin) {
  if (bin == 0) return 0;
  uint32_t least = OrderOf(-INFINITY);
  uint32_t end = OrderOf(INFINITY) + 1;
  while (least < end) {
    const uint32_t middle = least + (end - least) / 2;
    if (BinOf<kBinsLog2>(ScoreOf(middle)) >= bin) {
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
  const uint64_t row = blockIdx.x;
  const RowReader<Scores> reader(static_cast<const typename Scores::Raw*>(args.input) +
                                     row * static_cast<uint64_t>(args.stride),
                                 args.n);
  const RowStripe<Scores> stripe(reader, 0, 1);
  RowGroup alone;
  DigitBlock block = {SharedOfBlock(), alone,           args.k,
                      args.capacity,   args.digit_bits, DigitWindow{.candidates = args.n}};
  if (args.n > args.capacity) {
    CountBins<kUnroll, kBinsLog2>(stripe, block.shared);
    const FoundBin found = FindBin(block.shared, OwnQuad(block.shared), args.k);
    DigitWindow& window = block.window;
    const uint64_t end = uint64_t{LeastOrderOf<kBinsLog2>(found.bin + 1)} << 32;
    window.base = uint64_t{LeastOrderOf<kBinsLog2>(found.bin)} << 32;
    window.span = end - 1 - window.base;
    window.above = found.greater;
    window.candidates = found.greater + found.equal;
    NarrowWindow<1>(stripe, args.capacity, block);
  }
  const uint32_t count = CollectShared<kCollectUnroll>(stripe, block);
  SortKeys(count);
  WriteRow(args, row, block.shared);
}

using Kernel = void (*)(DigitSelectArgs);

template <int kPolicy>
Kernel KernelOf(RowType type) {
  switch (type) {
    case RowType::kFloat32: return HistogramKernel<Float32Scores, kPolicy>;
    case RowType::kFloat16: return HistogramKernel<Float16Scores, kPolicy>;
    case RowType::kBFloat16: break;
  }
  return HistogramKernel<BFloat16Scores, kPolicy>;
}

const char* Refuses(const SelectShape& shape, const SelectDevice& device) {
  return DigitSelectRefuses(shape.k, device);
}

int64_t WorkspaceBytes(const SelectShape&, const SelectDevice&) { return kSelectStateBytes; }

template <int kPolicy>
cudaError_t Prepare(const SelectDevice& device) {
  for (const RowType type : {RowType::kFloat32, RowType::kFloat16, RowType::kBFloat16}) {
    const cudaError_t error = PrepareDigitKernel(KernelOf<kPolicy>(type), device);
    if (error != cudaSuccess) return error;
  }
  return cudaSuccess;
}

template <int kPolicy>
cudaError_t Launch(const SelectCall& call) {
  DigitPlan plan;  // one block per row, in shared memory alone
  plan.rows = call.shape.batch;
  plan.args.input = call.scores;
  plan.args.stride = call.stride;
  plan.args.n = static_cast<uint32_t>(call.shape.n);
  plan.args.k = static_cast<uint32_t>(call.shape.k);
  plan.args.type = call.shape.type;
  plan.args.values = call.values;
  plan.args.indices = call.indices;
  plan.args.digit_bits = kDigitBitsMax;
  plan.args.capacity = DigitCapacityOf(call.shape.k);
  return LaunchDigitKernel(KernelOf<kPolicy>(call.shape.type), plan, nullptr, call.stream);
}

}  // namespace

extern const SelectAlgorithm kHistogramUnroll1 = {
    .name = "histogram_unroll1",
    .summary = "histogram with one load in flight a thread",
    .refuses = Refuses,
    .workspace_bytes = WorkspaceBytes,
    .prepare = Prepare<0>,
    .launch = Launch<0>};

extern const SelectAlgorithm kHistogramUnroll4 = {
    .name = "histogram_unroll4",
    .summary = "histogram with four loads in flight a thread",
    .refuses = Refuses,
    .workspace_bytes = WorkspaceBytes,
    .prepare = Prepare<1>,
    .launch = Launch<1>};

extern const SelectAlgorithm kHistogram = {
    .name = "histogram",
    .summary =
        "512 bins over the fp16 image of the scores give the bin of the k-th; what reaches "
        "it is collected and sorted",
    .refuses = Refuses,
    .workspace_bytes = WorkspaceBytes,
    .prepare = Prepare<2>,
    .launch = Launch<2>};

}  // namespace nearfield::gpu
