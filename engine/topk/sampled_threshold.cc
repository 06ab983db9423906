#include "engine/topk/sampled_threshold.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdlib>

#include "engine/topk/algorithm.h"

namespace nearfield::gpu {
namespace {

// Scores that justify another block: fewer cost less than its barriers. The second is for blocks
// that share an SM.
constexpr int64_t kScoresPerBlock = 8192;
constexpr int64_t kScoresPerRaggedBlock = 16384;

SampledTable TableOf(ScoreType type) {
  switch (type) {
    case ScoreType::kFloat32: return SampledFloat32();
    case ScoreType::kFloat16: return SampledFloat16();
    case ScoreType::kBFloat16: return SampledBFloat16();
    case ScoreType::kInt32: return SampledInt32();
    case ScoreType::kUint32: break;
  }
  return SampledUint32();
}

// Indices of kSampledPolicies.
constexpr std::size_t kManyRows = 0;
constexpr std::size_t kRaggedRows = 1;
constexpr std::size_t kFewRows = 2;

struct SampledGrid {
  std::size_t policy = kFewRows;
  int64_t blocks = 0;
  int32_t blocks_per_row = 1;  // 0: shared among ragged rows by their lengths

  int64_t scores_per_block() const {
    return policy == kRaggedRows ? kScoresPerRaggedBlock : kScoresPerBlock;
  }
};

// Shared memory of a block; the same for every type.
int64_t SharedBytesOf(std::size_t policy) {
  return static_cast<int64_t>(SampledFloat32().shared_bytes[policy]);
}

bool Fits(std::size_t policy, const SelectDevice& device) {
  return SharedBytesOf(policy) <= device.shared_bytes_per_block_max;
}

// Returns how many blocks are resident concurrently; at least one per multiprocessor.
int64_t ResidentBlocks(std::size_t policy, const SelectDevice& device) {
  const int64_t fitting = device.shared_bytes_per_sm / (SharedBytesOf(policy) + 1024);
  return device.sm_count * std::clamp<int64_t>(fitting, 1, kSampledPolicies[policy].blocks_per_sm);
}

// The blocks of ragged rows: as many as the device holds concurrently and the rows may justify.
// Returns one block per row if there are as many rows.
SampledGrid GridOfRagged(const SelectShape& shape, const SelectDevice& device) {
  SampledGrid grid;
  const bool few = shape.batch * 2 <= device.sm_count && Fits(kFewRows, device);
  if (!few && shape.k <= kSampledPolicies[kRaggedRows].shape.k_max) {
    grid.policy = Fits(kRaggedRows, device) ? kRaggedRows : kManyRows;
  }
  if (grid.policy == kManyRows) {
    grid.blocks = shape.batch;
    return grid;
  }
  const int64_t room = std::min<int64_t>(ResidentBlocks(grid.policy, device), kTaskBlocksMax);
  const int64_t worth = shape.n / grid.scores_per_block() + 1;
  grid.blocks = std::max(std::min(room, shape.batch * worth), shape.batch);
  if (grid.blocks > shape.batch) {
    grid.blocks_per_row = 0;
  } else if (grid.policy == kRaggedRows) {
    grid.policy = kManyRows;
  }
  return grid;
}

// Many rows: one block each. Few rows: as many blocks per row as the device holds concurrently and
// the row justifies.
SampledGrid GridOf(const SelectShape& shape, const SelectDevice& device) {
  if (shape.ragged) return GridOfRagged(shape, device);
  SampledGrid grid;
  grid.blocks = shape.batch;
  if (shape.batch > device.sm_count) {
    if (shape.k <= kSampledPolicies[kManyRows].shape.k_max) grid.policy = kManyRows;
    return grid;
  }
  const int64_t worth = (shape.n + kScoresPerBlock - 1) / kScoresPerBlock;
  const int64_t room = device.sm_count / shape.batch;
  if (shape.batch * 2 <= device.sm_count) {
    grid.blocks_per_row = static_cast<int32_t>(std::clamp<int64_t>(room, 1, worth));
  }
  grid.blocks *= grid.blocks_per_row;
  return grid;
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
  const int64_t groups = std::min<int64_t>(shape.batch, kRowGroupsMax);
  const int64_t capacity = kSampledPolicies[grid.policy].shape.capacity;
  return kSelectStateBytes + groups * capacity * int64_t{sizeof(uint64_t)};
}

cudaError_t Prepare(const SelectDevice& device) {
  for (const ScoreType type : kScoreTypes) {
    const SampledTable table = TableOf(type);
    cudaFuncSetAttribute(reinterpret_cast<const void*>(table.pipeline),
                         cudaFuncAttributeMaxDynamicSharedMemorySize,
                         static_cast<int>(table.pipeline_shared_bytes));
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

// PROTOTYPE
cudaError_t LaunchPipeline(const SelectCall& call, const SampledTable& table, SampledArgs args) {
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(static_cast<unsigned>(std::min<int64_t>(call.device.sm_count, args.batch)));
  config.blockDim = dim3(static_cast<unsigned>(kPipelineShape.threads), kPipelineTeams + 1);
  config.dynamicSmemBytes = table.pipeline_shared_bytes;
  config.stream = call.stream;
  void* parameters[] = {&args};
  return cudaLaunchKernelExC(&config, reinterpret_cast<const void*>(table.pipeline), parameters);
}

cudaError_t Launch(const SelectCall& call) {
  const SelectShape& shape = call.shape;
  const SampledGrid grid = GridOf(shape, call.device);
  const SampledTable table = TableOf(shape.type);
  SampledArgs args;
  args.rows = call.rows;
  SampleShape sample = {.n = args.rows.n,
                        .k = args.rows.k,
                        .room = static_cast<uint32_t>(kSampledPolicies[grid.policy].shape.capacity),
                        .per_vector = static_cast<uint32_t>(16 / BytesPerElement(shape.type)),
                        .blocks = static_cast<uint32_t>(std::max(grid.blocks_per_row, 1))};
  args.plan = PlanSample(sample);
  if (shape.ragged) {
    // Blocks that a row may have, besides one for each other row.
    const int64_t blocks_max = grid.blocks - shape.batch + 1;
    for (std::size_t bits = 0; bits < args.ragged_plans.size(); ++bits) {
      sample.n = static_cast<uint32_t>((uint64_t{2} << bits) - 1);
      sample.k = std::min(args.rows.k, sample.n);
      sample.blocks = static_cast<uint32_t>(
          std::min<int64_t>(sample.n / grid.scores_per_block() + 1, blocks_max));
      args.ragged_plans[bits] = PlanSample(sample);
    }
  }
  args.blocks_per_row = grid.blocks_per_row;
  args.batch = static_cast<uint32_t>(shape.batch);
  args.scores_per_block = static_cast<uint32_t>(grid.scores_per_block());
  args.groups = call.groups;
  args.candidates = reinterpret_cast<uint64_t*>(call.workspace + kSelectStateBytes);
  if (grid.policy == kManyRows && !shape.ragged && getenv("NF_PIPE") != nullptr) {
    sample.room = kPipelineShape.capacity;
    const SamplePlan plan = PlanSample(sample);
    if (plan.way == SampleWay::kOwnSample) {
      args.plan = plan;
      return LaunchPipeline(call, table, args);
    }
  }
  cudaLaunchAttribute cooperative = {};
  cooperative.id = cudaLaunchAttributeCooperative;
  cooperative.val.cooperative = 1;
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(static_cast<unsigned>(grid.blocks));
  config.blockDim = dim3(static_cast<unsigned>(kSampledPolicies[grid.policy].shape.threads));
  config.dynamicSmemBytes = table.shared_bytes[grid.policy];
  config.stream = call.stream;
  config.attrs = &cooperative;
  config.numAttrs = grid.blocks_per_row == 1 ? 0 : 1;
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
