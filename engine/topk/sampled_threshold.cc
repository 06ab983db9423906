#include "engine/topk/sampled_threshold.h"

#include <cuda_runtime_api.h>

#include <algorithm>

#include "engine/topk/algorithm.h"

namespace nearfield::gpu {
namespace {

// Scores that justify another block: fewer cost less than its barriers.
constexpr int64_t kScoresPerBlock = 8192;

SampledTable TableOf(RowType type) {
  switch (type) {
    case RowType::kFloat32: return SampledFloat32();
    case RowType::kFloat16: return SampledFloat16();
    case RowType::kBFloat16: break;
  }
  return SampledBFloat16();
}

struct SampledGrid {
  std::size_t policy = 0;
  int64_t rows_at_once = 0;
  int32_t blocks_per_row = 1;
};

// Many rows: one block each. Few rows: as many blocks per row as the device holds concurrently and
// the row justifies.
SampledGrid GridOf(const SelectShape& shape, const SelectDevice& device) {
  SampledGrid grid;
  grid.rows_at_once = shape.batch;
  if (shape.batch > device.sm_count) {
    while (shape.k > kSampledPolicies[grid.policy].shape.k_max) ++grid.policy;
    return grid;
  }
  grid.policy = kSampledPolicies.size() - 1;
  const int64_t worth = (shape.n + kScoresPerBlock - 1) / kScoresPerBlock;
  const int64_t room = device.sm_count / shape.batch;
  grid.blocks_per_row = static_cast<int32_t>(std::clamp<int64_t>(room, 1, worth));
  if (shape.batch > kGroupsMax) grid.blocks_per_row = 1;
  return grid;
}

bool Fits(std::size_t policy, const SelectDevice& device) {
  // The same for every type.
  const std::size_t bytes = SampledFloat32().shared_bytes[policy];
  return static_cast<int64_t>(bytes) <= device.shared_bytes_per_block_max;
}

const char* Refuses(const SelectShape& shape, const SelectDevice& device) {
  static_assert(kSampledKMax == 6144, "said below");
  if (shape.k > kSampledKMax) return "k: sampled_threshold keeps at most 6144 results";
  if (Fits(GridOf(shape, device).policy, device)) return nullptr;
  return "sampled_threshold needs more shared memory than a block has on this device";
}

int64_t WorkspaceBytes(const SelectShape& shape, const SelectDevice& device) {
  const SampledGrid grid = GridOf(shape, device);
  if (grid.blocks_per_row == 1) return kSelectStateBytes;
  return kSelectStateBytes +
         grid.rows_at_once * 2 * kSampledCapacityMax * int64_t{sizeof(uint64_t)};
}

cudaError_t Prepare(const SelectDevice& device) {
  for (const RowType type : {RowType::kFloat32, RowType::kFloat16, RowType::kBFloat16}) {
    const SampledTable table = TableOf(type);
    for (std::size_t policy = 0; policy < kSampledPolicies.size(); ++policy) {
      if (!Fits(policy, device)) continue;
      const cudaError_t error =
          cudaFuncSetAttribute(reinterpret_cast<const void*>(table.kernels[policy]),
                               cudaFuncAttributeMaxDynamicSharedMemorySize,
                               static_cast<int>(table.shared_bytes[policy]));
      if (error != cudaSuccess) return error;
    }
  }
  return cudaSuccess;
}

cudaError_t Launch(const SelectCall& call) {
  const SelectShape& shape = call.shape;
  const SampledGrid grid = GridOf(shape, call.device);
  const SampledTable table = TableOf(shape.type);
  SampledArgs args;
  args.scores = call.scores;
  args.stride = call.stride;
  args.batch = shape.batch;
  args.n = static_cast<uint32_t>(shape.n);
  args.k = static_cast<uint32_t>(shape.k);
  args.plan =
      PlanSample({.n = args.n,
                  .k = args.k,
                  .room = static_cast<uint32_t>(kSampledPolicies[grid.policy].shape.capacity),
                  .per_vector = static_cast<uint32_t>(16 / BytesPerElement(shape.type)),
                  .blocks = static_cast<uint32_t>(grid.blocks_per_row)});
  args.values = call.values;
  args.indices = call.indices;
  args.blocks_per_row = grid.blocks_per_row;
  args.groups = call.groups;
  args.candidates = reinterpret_cast<uint64_t*>(call.workspace + kSelectStateBytes);
  cudaLaunchAttribute cooperative = {};
  cooperative.id = cudaLaunchAttributeCooperative;
  cooperative.val.cooperative = 1;
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(static_cast<unsigned>(grid.rows_at_once * grid.blocks_per_row));
  config.blockDim = dim3(static_cast<unsigned>(kSampledPolicies[grid.policy].shape.threads));
  config.dynamicSmemBytes = table.shared_bytes[grid.policy];
  config.stream = call.stream;
  config.attrs = &cooperative;
  config.numAttrs = grid.blocks_per_row > 1 ? 1 : 0;
  void* parameters[] = {&args};
  return cudaLaunchKernelExC(&config, reinterpret_cast<const void*>(table.kernels[grid.policy]),
                             parameters);
}

}  // namespace

extern const SelectAlgorithm kSampledThreshold = {
    .name = "sampled_threshold",
    .summary =
        "a sample gives a threshold, one pass keeps what reaches it, counts prove it, a "
        "bucket sort orders it",
    .refuses = Refuses,
    .workspace_bytes = WorkspaceBytes,
    .prepare = Prepare,
    .launch = Launch};

}  // namespace nearfield::gpu
