// radix_select: finds the k-th best key digit by digit, most significant first.
#include "engine/topk/radix_select.h"

#include "engine/topk/digit_select.cuh"
#include "engine/topk/digit_window.cuh"
#include "engine/topk/row_batches.cuh"
#include "engine/topk/row_group.cuh"
#include "engine/topk/score_types.cuh"

namespace nearfield::gpu {
namespace {

constexpr int kUnroll = 4;  // 16-byte loads in flight per thread

// Selects the k best scores of each row, sorted.
// Grid rows * blocks_per_row, block 512: a row is owned by one block, or by a group of blocks that
// meet at barriers in device memory; the launch is then cooperative.
// Reads each score once per pass and once to collect, with 16-byte loads: twice for most rows. A
// row that needs more is copied (8 B per key) once few enough of its keys remain. Writes 8 B (6 B
// for 16-bit scores) per result. 1 x 1M fp32: 8 MB, 2 us and two barriers; 1024 x 50,000: 410 MB,
// of which the second read comes partly from L2, 45 to 90 us at 4.53 TB/s.
// Requires: k <= capacity, DigitSelectArgs as stated there.
// Steps: 1 count a digit in shared memory and add up over the group; every block finds the same
// digit of the k-th; repeat while more than `capacity` keys reach it; 2 collect the keys that do; 3
// the last block to arrive merges, sorts and writes.
// Source: Zhang, Naruse, Li, Wang, "Parallel Top-K Algorithms on GPU: A Comprehensive Study and New
// Methods", SC 2023. Differs: 64-bit unique keys, so ties need no special case and the result does
// not depend on the order in which blocks run; one launch, whose number of passes is decided on the
// device; it stops when a block can sort the rest.
template <typename Scores>
__global__ void __launch_bounds__(kDigitThreads, 2)
    RadixSelectKernel(const __grid_constant__ DigitSelectArgs args) {
  const auto blocks = static_cast<uint32_t>(args.blocks_per_row);
  const uint64_t place = blockIdx.x / blocks;
  const ScoreRow<Scores> row = RowAt<Scores>(args.rows, static_cast<int64_t>(place));
  RowGroup group(args, blocks);
  if (row.n == 0) {
    if (group.rank() == 0) row.Pad(kDigitThreads);
    return;
  }
  DigitBlock block = {SharedOfBlock(), group,           row.k,
                      args.capacity,   args.digit_bits, DigitWindow{.candidates = row.n}};
  const RowReader<Scores> reader(row.scores, row.n);
  if (!SelectRow<kUnroll>(args, place, RowStripe<Scores>(reader, group.rank(), blocks), block)) {
    return;
  }
  WriteRow(row, block.shared.keys());
}

using Kernel = void (*)(DigitSelectArgs);

Kernel KernelOf(ScoreType type) {
  return WithScores(type,
                    [](auto scores) -> Kernel { return RadixSelectKernel<decltype(scores)>; });
}

const char* Refuses(const SelectShape& shape, const SelectDevice& device) {
  return DigitSelectRefuses(shape.k, device);
}

cudaError_t Prepare(const SelectDevice& device) {
  for (const ScoreType type : kScoreTypes) {
    const cudaError_t error = PrepareDigitKernel(KernelOf(type), device);
    if (error != cudaSuccess) return error;
  }
  return cudaSuccess;
}

int64_t WorkspaceBytes(const SelectShape& shape, const SelectDevice& device) {
  return RadixSelectBytes(shape, device, kRadixSelectPolicy);
}

cudaError_t Launch(const SelectCall& call) { return LaunchRadixSelect(call, kRadixSelectPolicy); }

}  // namespace

int64_t RadixSelectBytes(const SelectShape& shape, const SelectDevice& device,
                         const DigitPolicy& policy) {
  return kSelectStateBytes + PlanDigitSelect(shape, device, policy).bytes();
}

cudaError_t LaunchRadixSelect(const SelectCall& call, const DigitPolicy& policy) {
  DigitPlan plan = PlanDigitSelect(call.shape, call.device, policy);
  plan.args.rows = call.rows;
  return LaunchDigitKernel(KernelOf(call.shape.type), plan, call.workspace + kSelectStateBytes,
                           call.stream);
}

extern const SelectAlgorithm kRadixSelect = {
    .name = "radix_select",
    .summary = "counts 11 bits of the keys at a time until few enough reach the k-th, sorts those",
    .refuses = Refuses,
    .workspace_bytes = WorkspaceBytes,
    .prepare = Prepare,
    .launch = Launch};

}  // namespace nearfield::gpu
