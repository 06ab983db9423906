// The kernel of one_query.h. Each row type is compiled in its own file.
#pragma once

#include <cstdint>

#include "engine/cuda/warp_primitives.cuh"
#include "engine/gpu/kernels/primitives/code_products.cuh"
#include "engine/gpu/kernels/primitives/final_sort.cuh"
#include "engine/gpu/kernels/primitives/score_rows.cuh"
#include "engine/gpu/kernels/primitives/threshold_bins.cuh"
#include "engine/gpu/kernels/single/one_query.h"
#include "engine/score/order.h"
#include "engine/score/row_terms.h"
#include "engine/topk/group_barrier.cuh"

namespace nearfield::gpu {

inline constexpr int kOneQueryWarps = kOneQueryThreads / kWarp;
inline constexpr int kGroups = kOneQueryWarps * kGroupRows;  // groups of lanes in a block
static_assert(kGroups == kSamplesPerBlockMax, "a sample for each group of lanes");

using FinalShared = FinalSort<kOneQueryThreads, kCandidatesMax, 12>;

// Static shared memory: small values that are used across phases.
struct OneQueryShared {
  float best_upper[kGroups];
  uint32_t best_row_index[kGroups];
  uint32_t chosen[kGroups];  // groups in order of their best bounds
  ThresholdBins bins;
  uint32_t listed;
  bool last;
};

// Layout of the dynamic shared memory: the query in fp64, its codes, the row indices of candidates.
// At the end the sort uses all of it.
struct OneQueryLayout {
  int64_t codes_at = 0;
  int64_t list_at = 0;
  int64_t bytes = 0;

  __host__ __device__ OneQueryLayout(int32_t dim, int32_t code_bytes) {
    codes_at = int64_t{8} * RowShapeOf(dim).padded;  // after the staged query
    list_at = codes_at + int64_t{2} * code_bytes;
    bytes = list_at + int64_t{kBlockCandidatesMax} * 4;
    if (bytes < int64_t{sizeof(FinalShared)}) bytes = int64_t{sizeof(FinalShared)};
  }
};

// The query's codes and their bound.
struct CodedQuery {
  SharedCodes codes;
  bound::QueryBound bound;
};

// Returns the final score of a row.
__device__ __forceinline__ float FinalOfRow(const OneQueryArgs& args, uint32_t row_index,
                                            float score) {
  if (args.sums == nullptr) return score;
  return score::FinalScore(args.score_weight, score, __ldcg(args.sums + row_index));
}

// Returns bounds of the final score of a group's row from both its codes, in the first lane of the
// group.
__device__ inline bound::ScoreRange RangeOfGlobalRow(const OneQueryArgs& args, uint32_t row_index,
                                                     const CodedQuery& query) {
  const CodedGeneration& generation = args.corpus.Of(row_index);
  bound::ScoreRange range =
      RangeOfRow(generation, row_index - generation.rows_begin, query.codes, query.bound);
  if (args.sums == nullptr) return range;
  const double sum = __ldcg(args.sums + row_index);
  range.lower = score::FinalLower(args.score_weight, range.lower, sum);
  range.upper = score::FinalUpper(args.score_weight, range.upper, sum);
  return range;
}

// Scores the rows with the best bounds of this block, canonically or by a lower bound from second
// codes, and writes args.samples.
template <typename Row>
__device__ void TakeSamples(const OneQueryArgs& args, const StagedQuery& query,
                            const CodedQuery& coded, BestRow best, OneQueryShared& shared) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
#pragma unroll
  for (int step = kGroupLanes / 2; step > 0; step /= 2) {
    const float upper = __shfl_xor_sync(kFullWarp, best.upper, step);
    const uint32_t row_index = __shfl_xor_sync(kFullWarp, best.row_index, step);
    if (upper > best.upper || (upper == best.upper && row_index < best.row_index)) {
      best = {upper, row_index};
    }
  }
  if (lane % kGroupLanes == 0) {
    const int group = warp * kGroupRows + lane / kGroupLanes;
    shared.best_upper[group] = best.upper;
    shared.best_row_index[group] = best.row_index;
  }
  __syncthreads();
  // Eight adjacent lanes compare one group's bound with all others.
  const uint32_t mine = threadIdx.x / kGroupLanes;
  const float upper = shared.best_upper[mine];
  const uint32_t above = RankByCount<kGroupLanes>(kGroups, [&](uint32_t other) {
    const float of_other = shared.best_upper[other];
    return of_other > upper || (of_other == upper && other < mine);
  });
  if (lane % kGroupLanes == 0) shared.chosen[above] = mine;
  __syncthreads();
  uint32_t* const samples = args.samples + blockIdx.x * args.samples_per_block;
  // Groups without a row come last.
  uint32_t count = 0;
  for (uint32_t i = threadIdx.x; i < args.samples_per_block; i += kOneQueryThreads) {
    if (shared.best_row_index[shared.chosen[i]] == 0xffffffffu) __stcg(samples + i, 0u);
  }
  while (count < args.samples_per_block &&
         shared.best_row_index[shared.chosen[count]] != 0xffffffffu) {
    ++count;
  }
  if (!args.corpus.generations[0].codes.has_second()) {
    ScoreRows<Row, kOneQueryWarps>(
        args.corpus, query, count,
        [&](uint32_t i) { return shared.best_row_index[shared.chosen[i]]; },
        [&](uint32_t i, uint32_t row_index, float score) {
          __stcg(samples + i, score::OrderedBits(FinalOfRow(args, row_index, score)));
        });
  } else if (count > 0) {  // a group of lanes for each sample
    const uint32_t i = min(mine, count - 1);
    const bound::ScoreRange range =
        RangeOfGlobalRow(args, shared.best_row_index[shared.chosen[i]], coded);
    if (lane % kGroupLanes == 0 && mine < count) {
      __stcg(samples + mine, score::OrderedBits(range.lower));
    }
  }
}

// Returns, as ordered bits, a score close to the k-th best that at least k of the samples reach;
// -inf if there are fewer samples.
__device__ inline uint32_t ThresholdOfSamples(const OneQueryArgs& args, OneQueryShared& shared) {
  constexpr int kItems = kSamplesMax / kOneQueryThreads;
  const uint32_t count = gridDim.x * args.samples_per_block;
  uint32_t items[kItems];
#pragma unroll
  for (int i = 0; i < kItems; ++i) {
    const uint32_t at = threadIdx.x + static_cast<uint32_t>(i) * kOneQueryThreads;
    items[i] = at < count ? __ldcg(args.samples + at) : 0;
  }
  return KthGreatest<kOneQueryThreads>(args.k, shared.bins, [&](auto visit) {
#pragma unroll
    for (int i = 0; i < kItems; ++i) {
      if (static_cast<uint32_t>(i) * kOneQueryThreads >= count) break;
      if (items[i] != 0) visit(items[i]);
    }
  });
}

// Lists the indices of all rows that may reach the threshold, from this block's chunks of 32
// indices. Consecutive chunks go to different blocks. shared.listed may exceed the list's capacity.
__device__ inline void ListCandidates(const OneQueryArgs& args, float threshold, uint32_t* list,
                                      OneQueryShared& shared) {
  constexpr int kAtOnce = 4;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const uint32_t warp = threadIdx.x / kWarp;
  const uint32_t chunks = args.corpus.row_index_end / kWarp;
  const uint32_t stride = gridDim.x * kOneQueryWarps;
  for (uint64_t first = blockIdx.x + uint64_t{gridDim.x} * warp; first < chunks;
       first += uint64_t{stride} * kAtOnce) {
    float uppers[kAtOnce];
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      const uint64_t chunk = first + uint64_t{stride} * static_cast<uint32_t>(i);
      if (chunk < chunks) uppers[i] = __ldcg(args.uppers + chunk * kWarp + lane);
    }
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      const uint64_t chunk = first + uint64_t{stride} * static_cast<uint32_t>(i);
      if (chunk >= chunks) break;
      const auto row_index = static_cast<uint32_t>(chunk) * kWarp + static_cast<uint32_t>(lane);
      if (uppers[i] < threshold) continue;
      const CodedGeneration& generation = args.corpus.Of(row_index);
      const uint32_t slot = row_index - generation.rows_begin;
      if (slot >= generation.rows_count || generation.tombstones.dead(slot)) continue;
      const uint32_t at = atomicAdd(&shared.listed, 1u);
      if (at < kBlockCandidatesMax) list[at] = row_index;
    }
  }
}

// Drops the listed rows that both their codes exclude and returns how many remain. Requires: the
// rows have second codes.
__device__ inline uint32_t PruneCandidates(const OneQueryArgs& args, const CodedQuery& query,
                                           float threshold, uint32_t* list, uint32_t listed,
                                           OneQueryShared& shared) {
  __syncthreads();  // all threads have read shared.listed
  if (threadIdx.x == 0) shared.listed = 0;
  for (uint32_t begin = 0; begin < listed; begin += kGroups) {
    const uint32_t i = begin + threadIdx.x / kGroupLanes;
    const uint32_t row_index = list[min(i, listed - 1)];
    const bound::ScoreRange range = RangeOfGlobalRow(args, row_index, query);
    __syncthreads();  // all threads have read these entries before any is overwritten
    if (threadIdx.x % kGroupLanes == 0 && i < listed && !(range.upper < threshold)) {
      list[atomicAdd(&shared.listed, 1u)] = row_index;
    }
  }
  __syncthreads();
  return shared.listed;
}

// Scores the listed rows canonically. Those that reach the threshold become keys in
// args.candidates. The count may exceed its capacity.
template <typename Row>
__device__ void ScoreCandidates(const OneQueryArgs& args, const StagedQuery& query,
                                uint32_t threshold, const uint32_t* list, uint32_t listed) {
  ScoreRows<Row, kOneQueryWarps>(
      args.corpus, query, listed, [&](uint32_t i) { return list[i]; },
      [&](uint32_t, uint32_t row_index, float canonical) {
        const float score = FinalOfRow(args, row_index, canonical);
        if (score::OrderedBits(score) < threshold) return;
        const CodedGeneration& generation = args.corpus.Of(row_index);
        const uint32_t rank = *generation.rows.rank(row_index - generation.rows_begin);
        const uint32_t at = atomicAdd(&args.state->candidates, 1u);
        if (at < kCandidatesMax) {
          __stcg(args.candidates + at, score::OrderKey(score, generation.rows_begin + rank));
        }
      });
}

// Writes the keys in order and resets the state, by the last block to finish.
__device__ inline void GiveAnswer(const OneQueryArgs& args, uint32_t threshold,
                                  FinalShared& final) {
  OneQueryState& state = *args.state;
  const uint32_t reached = __ldcg(&state.candidates);
  const uint32_t count = min(reached, kCandidatesMax);
  for (uint32_t i = threadIdx.x; i < count; i += kOneQueryThreads) {
    final.keys[i] = __ldcg(args.candidates + i);
  }
  __syncthreads();
  final.Sort(count, args.keys_max, args.keys);
  // The host may read the keys as soon as it sees the launch number.
  __threadfence_system();
  __syncthreads();
  if (threadIdx.x != 0) return;
  args.outcome->reached = reached;
  args.outcome->rescored = __ldcg(&state.rescored);
  args.outcome->overflow = __ldcg(&state.overflow) + (reached > kCandidatesMax ? 1 : 0);
  args.outcome->threshold = threshold;
  state.arrived = 0;
  state.left = 0;
  state.candidates = 0;
  state.rescored = 0;
  state.overflow = 0;
  __threadfence_system();
  *const_cast<volatile uint32_t*>(&args.outcome->launch) = args.launch;
}

// Finds the k rows with the largest (score, rank) over all generations, exactly.
// Grid: one block of 512 per SM, cooperative. Reads the codes once (16-byte loads,
// (code_bytes + 16) B per row), writes and reads 4 B of bound per row, and reads a few rows.
//   1M x 1024: 1.04 GB, 0.230 ms at 4.53 TB/s; all other steps about 15 us.
// Requires: arguments as stated in OneQueryArgs.
// Row terms add 8 B of their sum per row.
// Steps: 1 the query to shared memory, 2 a bound of every row, 3 canonical scores of the rows with
// the best bounds, 4 barrier, 5 the threshold, which k rows are known to reach, 6 canonical scores
// of the rows whose bound reaches it, 7 the last block sorts the rows whose score reaches it.
// Second codes replace the scores of step 3 by lower bounds and drop rows before step 6. Source:
// engine/DESIGN.md, "Certified bound".
template <typename Row>
__global__ void __launch_bounds__(kOneQueryThreads, 1)
    OneQueryKernel(const __grid_constant__ OneQueryArgs args) {
  extern __shared__ __align__(16) unsigned char shared_bytes[];
  __shared__ OneQueryShared shared;
  const int thread = static_cast<int>(threadIdx.x);
  const int32_t code_bytes = args.corpus.generations[0].codes.code_bytes;
  const OneQueryLayout layout(args.dim, code_bytes);
  auto* const staged = reinterpret_cast<double*>(shared_bytes);
  auto* const codes = reinterpret_cast<uint4*>(shared_bytes + layout.codes_at);
  const char* const vectors = args.query != nullptr ? args.query : args.inline_query;
  const int code_vectors = code_bytes / 16;
  for (int i = thread; i < 2 * code_vectors; i += kOneQueryThreads) {
    codes[i] = reinterpret_cast<const uint4*>(vectors)[i];
  }
  const StagedQuery query = {
      staged, args.device_squared != nullptr ? *args.device_squared : args.query_squared,
      args.metric};
  StageQuery(args.corpus.generations[0].rows.shape,
             reinterpret_cast<const float*>(vectors + 2 * code_bytes), staged, thread,
             kOneQueryThreads);
  if (thread == 0) shared.listed = 0;
  __syncthreads();
  GroupBarrier barrier(gridDim.x, &args.state->arrived, &args.state->left);
  const CodedQuery coded = {{codes, codes + code_vectors},
                            args.device_bound != nullptr ? *args.device_bound : args.bound};
  uint32_t threshold = args.threshold;
  if (threshold == 0) {
    const int units = OneQueryUnits(code_bytes);
    const BestRow best = units == 8   ? ScanCodes<8>(args, coded.codes, coded.bound)
                         : units == 4 ? ScanCodes<4>(args, coded.codes, coded.bound)
                         : units == 2 ? ScanCodes<2>(args, coded.codes, coded.bound)
                                      : ScanCodes<1>(args, coded.codes, coded.bound);
    TakeSamples<Row>(args, query, coded, best, shared);
    barrier.Wait();
    threshold = ThresholdOfSamples(args, shared);
  }
  __syncthreads();
  auto* const list = reinterpret_cast<uint32_t*>(shared_bytes + layout.list_at);
  const float reach = score::ScoreFromOrderedBits(threshold);
  ListCandidates(args, reach, list, shared);
  __syncthreads();
  const bool overflow = shared.listed > kBlockCandidatesMax;
  uint32_t listed = min(shared.listed, kBlockCandidatesMax);
  if (args.corpus.generations[0].codes.has_second()) {
    listed = PruneCandidates(args, coded, reach, list, listed, shared);
  }
  ScoreCandidates<Row>(args, query, threshold, list, listed);
  __syncthreads();
  if (thread == 0) {
    if (listed > 0) atomicAdd(&args.state->rescored, listed);
    if (overflow) atomicAdd(&args.state->overflow, 1u);
    shared.last = barrier.LeavesLast();
  }
  __syncthreads();
  if (!shared.last) return;
  __threadfence();
  GiveAnswer(args, threshold, *reinterpret_cast<FinalShared*>(shared_bytes));
}

}  // namespace nearfield::gpu
