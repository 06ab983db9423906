// Selection kernel of a search, over keys. sampled_threshold.cuh describes the algorithm.
#include <array>
#include <cstddef>
#include <cstdint>

#include "engine/topk/row_selector.cuh"
#include "engine/topk/select.h"
#include "engine/topk/select_sources.cuh"

namespace nearfield::gpu {
namespace {

template <int kShape>
using KeySelector = RowSelector<KeySource, kSelectShapes[kShape]>;

// Returns the destination of a problem's answer: the carry, or a list.
__device__ uint64_t* AnswerOf(const SelectArgs& args, const SelectPiece& piece, int query) {
  if (piece.result_slot < 0) return args.keys + query * args.keys_pitch;
  const int64_t list = static_cast<int64_t>(piece.result_slot) * args.queries_count + query;
  return args.results + list * args.results_pitch;
}

// Finishes an answer in the leader: pads the carry with kNoSelectKey, or writes the counts of a
// list.
__device__ void FinishAnswer(const SelectArgs& args, const SelectPiece& piece, int query,
                             const SelectCount& selected) {
  if (piece.result_slot < 0) {
    uint64_t* const carry = AnswerOf(args, piece, query);
    const auto carried = static_cast<uint32_t>(args.carry_keys);
    for (uint32_t i = selected.kept + threadIdx.x; i < carried; i += kSelectThreads) {
      carry[i] = kNoSelectKey;
    }
  } else if (threadIdx.x == 0) {
    const int64_t list = static_cast<int64_t>(piece.result_slot) * args.queries_count + query;
    args.counts[list] = selected;
  }
}

// Finds the k largest keys of each problem (piece, query), and writes them in descending order.
// Grid groups * blocks_per_group, block 512: a group of blocks solves the problems group, group +
// groups, ... Groups of several blocks meet at their own barriers, so the launch is cooperative.
// Reads a sample, then each key once or twice (8 B, 16-byte loads; the scan has just left them in
// L2). Writes k * 8 B per problem. 1M keys: 8 MB per pass, 2 us; with barriers about 10 us.
// Requires: SelectArgs as stated there; keys unique, except kNoSelectKey.
// Steps and source: as SampledThresholdKernel.
template <int kShape>
__global__ void __launch_bounds__(kSelectThreads, 1)
    SelectKernel(const __grid_constant__ SelectArgs args) {
  extern __shared__ __align__(16) unsigned char shared_bytes[];
  using Selector = KeySelector<kShape>;
  auto& shared = *reinterpret_cast<typename Selector::Shared*>(shared_bytes);
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
    const SamplePlan plan =
        PlanSample({.n = keys.size(),
                    .k = k,
                    .room = static_cast<uint32_t>(kSelectShapes[kShape].capacity),
                    .per_vector = RowReader<KeySource>::kPerVector,
                    .blocks = static_cast<uint32_t>(group.size())});
    const auto selected = Selector::Select(keys, k, plan, group, buffers + turn * kSelectCapacity,
                                           shared, KeyResults{answer});
    if (!group.leads()) continue;
    FinishAnswer(args, piece, query, {selected.kept, selected.candidates});
    __syncthreads();
  }
  group.Leave();
}

struct SelectVariant {
  void (*kernel)(SelectArgs);
  int64_t shared_bytes;
};
template <int kShape>
constexpr SelectVariant kVariant = {SelectKernel<kShape>,
                                    sizeof(typename KeySelector<kShape>::Shared)};
constexpr std::array<SelectVariant, kSelectShapes.size()> kVariants = {kVariant<0>, kVariant<1>,
                                                                       kVariant<2>};
static_assert(kVariants.back().shared_bytes <= 64 * 1024, "every device of CUDA 13 has this much");

const SelectVariant& VariantOf(int shape) { return kVariants[static_cast<std::size_t>(shape)]; }

}  // namespace

int SelectShapeFor(int64_t shared_bytes_per_block_max) {
  int shape = 0;
  while (shape + 1 < static_cast<int>(kVariants.size()) &&
         VariantOf(shape).shared_bytes > shared_bytes_per_block_max) {
    ++shape;
  }
  return shape;
}

cudaError_t PrepareSelect(int shape) {
  const SelectVariant& variant = VariantOf(shape);
  const auto* const kernel = reinterpret_cast<const void*>(variant.kernel);
  cudaError_t error = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                           static_cast<int>(variant.shared_bytes));
  if (error != cudaSuccess) return error;
  int blocks = 0;
  error = cudaOccupancyMaxActiveBlocksPerMultiprocessor(
      &blocks, kernel, kSelectThreads, static_cast<std::size_t>(variant.shared_bytes));
  if (error != cudaSuccess) return error;
  return blocks >= 1 ? cudaSuccess : cudaErrorInvalidConfiguration;
}

cudaError_t LaunchSelect(int shape, int groups, const SelectArgs& args, cudaStream_t stream) {
  const SelectVariant& variant = VariantOf(shape);
  const bool together = args.blocks_per_group > 1;
  if (together && groups > kGroupsMax) return cudaErrorInvalidValue;
  cudaLaunchAttribute cooperative = {};
  cooperative.id = cudaLaunchAttributeCooperative;
  cooperative.val.cooperative = 1;
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(static_cast<unsigned>(groups * args.blocks_per_group));
  config.blockDim = dim3(kSelectThreads);
  config.dynamicSmemBytes = static_cast<std::size_t>(variant.shared_bytes);
  config.stream = stream;
  config.attrs = &cooperative;
  config.numAttrs = together ? 1 : 0;
  SelectArgs copy = args;
  void* parameters[] = {&copy};
  return cudaLaunchKernelExC(&config, reinterpret_cast<const void*>(variant.kernel), parameters);
}

}  // namespace nearfield::gpu
