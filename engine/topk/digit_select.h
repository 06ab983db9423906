// Digit selection over keys, most significant digit first: sizes, plan and arguments. Host side.
//
// A launch processes several rows concurrently, each with one block or with a group of blocks.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "engine/topk/algorithm.h"

namespace nearfield::gpu {

inline constexpr uint32_t kDigitThreads = 512;
inline constexpr int kDigitBitsMax = 11;
inline constexpr uint32_t kDigitBinsMax = 1u << kDigitBitsMax;
static_assert(kDigitBinsMax == 4 * kDigitThreads, "four bins a thread");

// Number of keys sorted at the end, by k: enough above k that a digit seldom splits too finely, few
// enough to sort fast. Ascending k_max.
struct DigitCapacity {
  int64_t k_max;
  uint32_t keys;  // kDigitThreads times a power of two up to 16
};
inline constexpr std::array<DigitCapacity, 4> kDigitCapacities = {{
    {.k_max = 512, .keys = 1024},
    {.k_max = 1024, .keys = 2048},
    {.k_max = 2048, .keys = 4096},
    {.k_max = 4096, .keys = 8192},
}};
inline constexpr int64_t kDigitKMax = kDigitCapacities.back().k_max;
inline constexpr uint32_t kDigitCapacityMax = kDigitCapacities.back().keys;

// Returns the capacity for k. Requires: 1 <= k <= kDigitKMax.
constexpr uint32_t DigitCapacityOf(int64_t k) {
  for (const DigitCapacity& capacity : kDigitCapacities) {
    if (k <= capacity.k_max) return capacity.keys;
  }
  return 0;
}

// Dynamic shared memory of a block: the fixed part of digit_select.cuh, the keys, and the extra key
// that a merge sort touches.
inline constexpr int64_t kDigitSharedFixedBytes = kDigitBinsMax * 4 + 256;
constexpr int64_t DigitSharedBytes(uint32_t capacity) {
  return kDigitSharedFixedBytes + (int64_t{capacity} + 2) * 8;
}

// State that the blocks of one group share; zero when a launch begins.
struct RowGroupState {
  uint32_t arrived;    // blocks that arrived at the barrier
  uint32_t left;       // blocks that are done
  uint32_t compacted;  // slots reserved in DigitSelectArgs::compact
  uint32_t collected;  // slots reserved in DigitSelectArgs::candidates
  uint32_t reserved[28];
};
static_assert(sizeof(RowGroupState) == 128, "states of different groups share no line");

struct DigitSelectArgs {
  ScoreRows rows;
  int32_t digit_bits = 0;
  uint32_t capacity = 0;  // maximum number of keys a block sorts; >= k
  // Candidates are copied out of the row once there are at most this many, if this is more than
  // `capacity`.
  uint32_t compact_max = 0;
  uint64_t* compact = nullptr;  // [rows, compact_max]
  int32_t blocks_per_row = 1;
  // Read only if blocks_per_row > 1.
  RowGroupState* groups = nullptr;  // [rows]
  uint32_t* bins = nullptr;         // [rows, passes, 1 << digit_bits], zero when a launch begins
  uint64_t* candidates = nullptr;   // [rows, capacity]
};

constexpr int DigitPassesMax(int digit_bits) { return (64 + digit_bits - 1) / digit_bits; }

// Tuning of one algorithm.
struct DigitPolicy {
  int digit_bits;
  int64_t keys_per_block;  // fewer are not worth the barriers of another block
  int64_t compact_n_min;   // shorter rows are read again instead of being compacted
  int64_t compact_part;    // candidates are compacted at n / compact_part
};

struct DigitPlan {
  DigitSelectArgs args;  // without the pointers, which the caller and the launch set
  int64_t rows = 0;
  int64_t state_bytes = 0;  // groups, then bins: zeroed together before a launch
  int64_t candidates_bytes = 0;
  int64_t compact_bytes = 0;

  int64_t bytes() const { return state_bytes + candidates_bytes + compact_bytes; }
};

// Returns the plan for shape.batch concurrent rows. Requires: k <= kDigitKMax.
inline DigitPlan PlanDigitSelect(const SelectShape& shape, const SelectDevice& device,
                                 const DigitPolicy& policy) {
  DigitPlan plan;
  plan.rows = shape.batch;
  plan.args.digit_bits = policy.digit_bits;
  plan.args.capacity = DigitCapacityOf(shape.k);
  if (shape.n >= policy.compact_n_min) {
    plan.args.compact_max = static_cast<uint32_t>(shape.n / policy.compact_part);
    plan.compact_bytes = plan.rows * int64_t{plan.args.compact_max} * 8;
  }
  if (shape.batch < device.sm_count) {
    // As many blocks as can be resident concurrently: kernels are compiled for two per SM.
    const int64_t shared_bytes = DigitSharedBytes(plan.args.capacity) + 1024;  // CUDA uses 1 KiB
    const int64_t per_sm =
        std::clamp<int64_t>(device.shared_bytes_per_sm / shared_bytes, int64_t{1}, int64_t{2});
    const int64_t room = per_sm * device.sm_count / shape.batch;
    const int64_t worth = (shape.n + policy.keys_per_block - 1) / policy.keys_per_block;
    plan.args.blocks_per_row = static_cast<int32_t>(std::clamp<int64_t>(room, 1, worth));
  }
  if (plan.args.blocks_per_row > 1) {
    const int64_t bins_bytes =
        (int64_t{4} << policy.digit_bits) * DigitPassesMax(policy.digit_bits);
    plan.state_bytes = plan.rows * (int64_t{sizeof(RowGroupState)} + bins_bytes);
    plan.candidates_bytes = plan.rows * int64_t{plan.args.capacity} * 8;
  }
  return plan;
}

// Returns nullptr if the device has the shared memory for k, else the limit.
inline const char* DigitSelectRefuses(int64_t k, const SelectDevice& device) {
  if (k > kDigitKMax) return "k is above 4096, the limit of a selection by digits";
  if (DigitSharedBytes(DigitCapacityOf(k)) > device.shared_bytes_per_block_max) {
    return "k is above what the shared memory of a block on this device can sort";
  }
  return nullptr;
}
static_assert(kDigitKMax == 4096, "the reason names it");

// Allows a kernel all the shared memory that it can use, and loads it.
template <typename Kernel>
cudaError_t PrepareDigitKernel(Kernel kernel, const SelectDevice& device) {
  const int64_t bytes =
      std::min(DigitSharedBytes(kDigitCapacityMax), device.shared_bytes_per_block_max);
  return cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel),
                              cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes));
}

// Launches the kernel with the arguments of the plan, then `more`. The memory of the plan begins at
// `memory`, 256-byte aligned.
template <typename... More>
cudaError_t LaunchDigitKernel(void (*kernel)(DigitSelectArgs, More...), const DigitPlan& plan,
                              char* memory, cudaStream_t stream, More... more) {
  DigitSelectArgs args = plan.args;
  const bool together = args.blocks_per_row > 1;
  if (together) {
    const cudaError_t error =
        cudaMemsetAsync(memory, 0, static_cast<std::size_t>(plan.state_bytes), stream);
    if (error != cudaSuccess) return error;
    args.groups = reinterpret_cast<RowGroupState*>(memory);
    args.bins = reinterpret_cast<uint32_t*>(args.groups + plan.rows);
    args.candidates = reinterpret_cast<uint64_t*>(memory + plan.state_bytes);
  }
  args.compact = reinterpret_cast<uint64_t*>(memory + plan.state_bytes + plan.candidates_bytes);
  cudaLaunchAttribute cooperative = {};
  cooperative.id = cudaLaunchAttributeCooperative;
  cooperative.val.cooperative = 1;
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(static_cast<unsigned>(plan.rows * args.blocks_per_row));
  config.blockDim = dim3(kDigitThreads);
  config.dynamicSmemBytes = static_cast<std::size_t>(DigitSharedBytes(args.capacity));
  config.stream = stream;
  config.attrs = &cooperative;
  config.numAttrs = together ? 1 : 0;
  void* parameters[] = {&args, &more...};
  return cudaLaunchKernelExC(&config, reinterpret_cast<const void*>(kernel), parameters);
}

}  // namespace nearfield::gpu
