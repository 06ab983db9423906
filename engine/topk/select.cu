// Selection kernel of a search, over keys. sampled_threshold.cuh describes the algorithm.
#include <cstdint>

#include "engine/topk/row_selector.cuh"
#include "engine/topk/select.h"
#include "engine/topk/select_sources.cuh"

namespace nearfield::gpu {
namespace {

constexpr SelectorShape kKeyShape = {.k_max = kSelectKMax,
                                     .threads = kSelectThreads,
                                     .capacity = kSelectCapacity,
                                     .bin_bits = 12,
                                     .vectors = 4,
                                     .stages = 2,
                                     .grouped = true};
using KeySelector = RowSelector<KeySource, kKeyShape>;

// Returns the destination of a problem's answer: the carry, or a list.
__device__ uint64_t* AnswerOf(const SelectArgs& args, const SelectPiece& piece, int query) {
  if (piece.result_slot < 0) return args.keys + query * args.keys_pitch;
  const int64_t list = static_cast<int64_t>(piece.result_slot) * args.queries_count + query;
  return args.results + list * args.results_pitch;
}

// Finishes an answer in the leader: pads the carry with kNoSelectKey, or writes the counts of a
// list.
__device__ void FinishAnswer(const SelectArgs& args, const SelectPiece& piece, int query,
                             const KeySelector::Selected& selected) {
  if (piece.result_slot < 0) {
    uint64_t* const carry = AnswerOf(args, piece, query);
    const auto carried = static_cast<uint32_t>(args.carry_keys);
    for (uint32_t i = selected.kept + threadIdx.x; i < carried; i += kSelectThreads) {
      carry[i] = kNoSelectKey;
    }
  } else if (threadIdx.x == 0) {
    const int64_t list = static_cast<int64_t>(piece.result_slot) * args.queries_count + query;
    args.counts[list] = SelectCount{selected.kept, selected.candidates};
  }
}

// Finds the k largest keys of each problem (piece, query), and writes them in descending order.
// Grid groups * blocks_per_group, block 512: a group of blocks solves the problems group, group +
// groups, ... Groups of several blocks meet at their own barriers, so the launch is cooperative.
// Reads a sample, then each key once or twice (8 B, 16-byte loads; the scan has just left them in
// L2). Writes k * 8 B per problem. 1M keys: 8 MB per pass, 2 us; with barriers about 10 us.
// Requires: SelectArgs as stated there; keys unique, except kNoSelectKey.
// Steps and source: as SampledThresholdKernel.
__global__ void __launch_bounds__(kSelectThreads, 1)
    SelectKernel(const __grid_constant__ SelectArgs args) {
  extern __shared__ __align__(16) unsigned char shared_bytes[];
  auto& shared = *reinterpret_cast<KeySelector::Shared*>(shared_bytes);
  BlockGroup group(args.groups, args.blocks_per_group);
  const int groups = static_cast<int>(gridDim.x) / args.blocks_per_group;
  const int problems = args.pieces_count * args.queries_count;
  // A group alternates between two buffers: the leader may still read one while the others fill the
  // next.
  uint64_t* const buffers = args.candidates + int64_t{2} * group.index() * kSelectCapacity;
  int turn = 0;
  for (int number = group.index(); number < problems; number += groups, turn ^= 1) {
    const SelectPiece& piece = args.pieces[number / args.queries_count];
    const int query = number % args.queries_count;
    const RowReader<KeySource> keys(args.keys + query * args.keys_pitch + piece.key_begin,
                                    static_cast<uint32_t>(piece.keys_count));
    uint64_t* const answer = AnswerOf(args, piece, query);
    const auto k = static_cast<uint32_t>(args.k[query]);
    const SamplePlan plan = PlanSample({.n = keys.size(),
                                        .k = k,
                                        .room = kSelectCapacity,
                                        .per_vector = RowReader<KeySource>::kPerVector,
                                        .blocks = static_cast<uint32_t>(group.size())});
    const KeySelector::Selected selected = KeySelector::Select(
        keys, k, plan, group, buffers + turn * kSelectCapacity, shared, KeyResults{answer});
    if (!group.leads()) continue;
    FinishAnswer(args, piece, query, selected);
    __syncthreads();
  }
  group.Leave();
}

}  // namespace

cudaError_t PrepareSelect() {
  cudaError_t error =
      cudaFuncSetAttribute(SelectKernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                           static_cast<int>(sizeof(KeySelector::Shared)));
  if (error != cudaSuccess) return error;
  int blocks = 0;
  error = cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, SelectKernel, kSelectThreads,
                                                        sizeof(KeySelector::Shared));
  if (error != cudaSuccess) return error;
  return blocks >= 1 ? cudaSuccess : cudaErrorInvalidConfiguration;
}

cudaError_t LaunchSelect(int groups, const SelectArgs& args, cudaStream_t stream) {
  const bool together = args.blocks_per_group > 1;
  if (together && groups > kGroupsMax) return cudaErrorInvalidValue;
  cudaLaunchAttribute cooperative = {};
  cooperative.id = cudaLaunchAttributeCooperative;
  cooperative.val.cooperative = 1;
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(static_cast<unsigned>(groups * args.blocks_per_group));
  config.blockDim = dim3(kSelectThreads);
  config.dynamicSmemBytes = sizeof(KeySelector::Shared);
  config.stream = stream;
  config.attrs = &cooperative;
  config.numAttrs = together ? 1 : 0;
  SelectArgs copy = args;
  void* parameters[] = {&copy};
  return cudaLaunchKernelExC(&config, reinterpret_cast<const void*>(SelectKernel), parameters);
}

}  // namespace nearfield::gpu
