// The value that bounds of rows must reach, for each query with row terms and each tile of rows.
#include <cstdint>

#include "engine/gpu/kernels/batch/batch.h"
#include "engine/gpu/kernels/batch/batch_keep.cuh"
#include "engine/gpu/kernels/batch/batch_tiles.cuh"
#include "engine/score/row_terms.h"

namespace nearfield::gpu {
namespace {

constexpr int kThreads = 256;
static_assert(kNumberTileRows == kBatchTileRows);

// One thread for each tile of the stage and each query. Grid (blocks), block 256. Reads 32 B of a
// range for each term, writes 4 B.
// Step: the largest sum of the terms in the tile; the smallest score that reaches the threshold
// with it (score::ScoreToReach).
__global__ void __launch_bounds__(kThreads)
    BatchReachKernel(const __grid_constant__ BatchArgs args, const BatchStage stage) {
  const int64_t place = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  const int64_t in_stage = place / args.queries;
  if (in_stage >= stage.tiles) return;
  const auto query = static_cast<int>(place - in_stage * args.queries);
  const uint32_t tile = TileAt(stage, static_cast<uint32_t>(in_stage));
  const CodedCorpus& corpus = *args.corpus_in_memory;
  const int generation = corpus.GenerationIndex(tile * kBatchTileRows);
  const uint32_t of_generation = tile - corpus.generations[generation].rows_begin / kBatchTileRows;
  QueryTerms of_query = TermsOf(args, query);
  if (IsAlive(args, query)) {
    const BatchTermList& terms = args.terms[query];
    const BatchQuery& state = args.state[query];
    const float score = score::ScoreToReach(
        terms.score_weight, terms.SumUpper(generation, of_generation), state.threshold);
    of_query.reach = ReachOf(score, state.first_only);
  }
  args.reach[int64_t{tile} * args.queries + query] = of_query.reach;
}

}  // namespace

cudaError_t LaunchBatchReach(const BatchArgs& args, const BatchStage& stage, cudaStream_t stream) {
  const int64_t count = int64_t{stage.tiles} * args.queries;
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(static_cast<unsigned>((count + kThreads - 1) / kThreads));
  config.blockDim = dim3(kThreads);
  config.stream = stream;
  BatchStage copy = stage;
  void* parameters[] = {const_cast<BatchArgs*>(&args), &copy};
  return cudaLaunchKernelExC(&config, reinterpret_cast<const void*>(BatchReachKernel), parameters);
}

}  // namespace nearfield::gpu
