// Multi-block most-significant-digit radix selection with a sorted result.
#include <cub/block/block_merge_sort.cuh>
#include <cub/block/block_scan.cuh>

#include <cstdint>

#include "engine/gpu/kernels/select/group_barrier.cuh"
#include "engine/gpu/kernels/select/select.h"

namespace nearfield::gpu {
namespace {

struct Greater {
  __device__ bool operator()(uint64_t a, uint64_t b) const { return a > b; }
};

template <int kItems>
using MergeSort = cub::BlockMergeSort<uint64_t, kSelectThreads, kItems>;
using BinScan = cub::BlockScan<uint32_t, kSelectThreads>;

struct Shared {
  union {
    uint64_t keys[kSelectCapacityMax];
    MergeSort<kSelectCapacityMax / kSelectThreads>::TempStorage sort;
  };
  uint32_t bins[kDigitBins];
  BinScan::TempStorage scan;
  RadixState state;
  uint32_t collected;
  uint32_t base;
};

// One problem as a block sees it.
struct Problem {
  uint64_t* keys;  // of the piece
  int64_t begin;   // this block's stripe of them
  int64_t end;
  int32_t query;
  int32_t k;
  int32_t result_slot;
};

// Calls visit(key) for the keys of the stripe, 64 bytes a thread in flight. The begin of a stripe
// is 16-byte aligned.
template <typename Visit>
__device__ void ForEachKey(const Problem& problem, const Visit& visit) {
  constexpr int kUnroll = 4;
  constexpr int64_t kStep = int64_t{kSelectThreads} * 2;
  const uint64_t* const keys = problem.keys;
  int64_t at = problem.begin + int64_t{threadIdx.x} * 2;
  for (; at + (kUnroll - 1) * kStep + 2 <= problem.end; at += kUnroll * kStep) {
    ulonglong2 pairs[kUnroll];
#pragma unroll
    for (int i = 0; i < kUnroll; ++i) {
      pairs[i] = *reinterpret_cast<const ulonglong2*>(keys + at + i * kStep);
    }
#pragma unroll
    for (int i = 0; i < kUnroll; ++i) {
      visit(static_cast<uint64_t>(pairs[i].x));
      visit(static_cast<uint64_t>(pairs[i].y));
    }
  }
  for (; at < problem.end; at += kStep) {
    visit(keys[at]);
    if (at + 1 < problem.end) visit(keys[at + 1]);
  }
}

// Finds the digit of the wanted-th key in shared.bins and moves shared.state on. All threads call
// it.
__device__ void ChooseDigit(Shared& shared, int pass, int k) {
  constexpr int kBinsPerThread = kDigitBins / kSelectThreads;
  const int first = kDigitBins - 1 - static_cast<int>(threadIdx.x) * kBinsPerThread;  // descending
  uint32_t mine[kBinsPerThread];
  uint32_t sum = 0;
#pragma unroll
  for (int i = 0; i < kBinsPerThread; ++i) {
    mine[i] = shared.bins[first - i];
    sum += mine[i];
  }
  uint32_t greater = 0;
  uint32_t total = 0;
  BinScan(shared.scan).ExclusiveSum(sum, greater, total);
  RadixState state = shared.state;
  __syncthreads();  // all have read the state before one of them writes it
  if (pass == 0) state.wanted = total < static_cast<uint32_t>(k) ? total : static_cast<uint32_t>(k);
  const uint32_t needed = state.wanted - state.above;  // 0 only where there is no key at all
  if (needed == 0) {
    if (threadIdx.x == 0) shared.state = RadixState{~uint64_t{0}, 0, 0, 0};
  } else {
#pragma unroll
    for (int i = 0; i < kBinsPerThread; ++i) {
      if (greater < needed && needed <= greater + mine[i]) {
        shared.state = NextState(state, pass, static_cast<uint32_t>(first - i), greater, mine[i]);
      }
      greater += mine[i];
    }
  }
  __syncthreads();
}

// Counts one digit over the keys of the whole group into shared.bins.
__device__ void CountDigit(const Problem& problem, const SelectArgs& args, Group& group,
                           Shared& shared, int pass, uint32_t* global_bins) {
  for (int bin = static_cast<int>(threadIdx.x); bin < kDigitBins; bin += kSelectThreads) {
    shared.bins[bin] = 0;
  }
  __syncthreads();
  const uint64_t prefix = shared.state.prefix;
  ForEachKey(problem, [&](uint64_t key) {
    if (key != 0 && HasPrefix(key, prefix, pass)) atomicAdd(&shared.bins[DigitOf(key, pass)], 1u);
  });
  __syncthreads();
  if (args.blocks_per_group == 1) return;
  for (int bin = static_cast<int>(threadIdx.x); bin < kDigitBins; bin += kSelectThreads) {
    if (shared.bins[bin] != 0) atomicAdd(&global_bins[bin], shared.bins[bin]);
  }
  group.Barrier();
  for (int bin = static_cast<int>(threadIdx.x); bin < kDigitBins; bin += kSelectThreads) {
    shared.bins[bin] = __ldcg(&global_bins[bin]);
  }
  __syncthreads();
}

// Gathers every key >= threshold: in shared.keys for a group of one block, else in the group's
// candidates. Their number is known from the counts to be at most the capacity. Returns it, in all
// threads of the leader.
__device__ uint32_t Collect(const Problem& problem, const SelectArgs& args, Group& group,
                            Shared& shared, uint64_t threshold) {
  if (threadIdx.x == 0) shared.collected = 0;
  __syncthreads();
  ForEachKey(problem, [&](uint64_t key) {
    if (key >= threshold) shared.keys[atomicAdd(&shared.collected, 1u)] = key;
  });
  __syncthreads();
  if (args.blocks_per_group == 1) return shared.collected;
  uint64_t* const candidates =
      args.candidates + static_cast<int64_t>(group.index()) * kSelectCapacityMax;
  uint32_t* const count = &args.groups[group.index()].candidates;
  if (threadIdx.x == 0) shared.base = atomicAdd(count, shared.collected);
  __syncthreads();
  for (uint32_t i = threadIdx.x; i < shared.collected; i += kSelectThreads) {
    candidates[shared.base + i] = shared.keys[i];
  }
  group.Barrier();
  if (!group.leads()) return 0;
  const uint32_t total = __ldcg(count);
  for (uint32_t i = threadIdx.x; i < total; i += kSelectThreads) {
    shared.keys[i] = __ldcg(&candidates[i]);
  }
  __syncthreads();
  if (threadIdx.x == 0) *count = 0;
  return total;
}

// Sorts shared.keys[0, count) in descending order; count <= kItems * kSelectThreads.
template <int kItems>
__device__ void SortKeys(Shared& shared, uint32_t count) {
  uint64_t mine[kItems];
  const uint32_t first = threadIdx.x * kItems;
#pragma unroll
  for (int i = 0; i < kItems; ++i) {
    mine[i] = first + i < count ? shared.keys[first + i] : 0;
  }
  __syncthreads();
  MergeSort<kItems>(*reinterpret_cast<typename MergeSort<kItems>::TempStorage*>(&shared.sort))
      .Sort(mine, Greater());
  __syncthreads();
#pragma unroll
  for (int i = 0; i < kItems; ++i) shared.keys[first + i] = mine[i];
  __syncthreads();
}

__device__ void SortCandidates(Shared& shared, uint32_t count) {
  if (count <= kSelectThreads) {
    SortKeys<1>(shared, count);
  } else if (count <= 2 * kSelectThreads) {
    SortKeys<2>(shared, count);
  } else if (count <= 4 * kSelectThreads) {
    SortKeys<4>(shared, count);
  } else {
    SortKeys<8>(shared, count);
  }
}

// The leader's last step: the wanted greatest keys, best first, to their list or to the carry.
__device__ void WriteAnswer(const Problem& problem, const SelectArgs& args, const Shared& shared,
                            uint32_t wanted, uint32_t candidates) {
  if (problem.result_slot < 0) {
    uint64_t* const carry = args.keys + static_cast<int64_t>(problem.query) * args.keys_pitch;
    for (uint32_t i = threadIdx.x; i < static_cast<uint32_t>(args.carry_keys);
         i += kSelectThreads) {
      carry[i] = i < wanted ? shared.keys[i] : 0;
    }
    return;
  }
  const int64_t list =
      static_cast<int64_t>(problem.result_slot) * args.queries_count + problem.query;
  uint64_t* const results = args.results + list * args.results_pitch;
  for (uint32_t i = threadIdx.x; i < wanted; i += kSelectThreads) results[i] = shared.keys[i];
  if (threadIdx.x == 0) args.counts[list] = SelectCount{wanted, candidates};
}

__device__ void SolveProblem(const Problem& problem, const SelectArgs& args, Group& group,
                             Shared& shared, uint32_t* histograms) {
  if (threadIdx.x == 0) shared.state = RadixState{};
  __syncthreads();
  int passes = 0;
  const bool all_fit = args.blocks_per_group == 1 && problem.end - problem.begin <= args.capacity;
  if (!all_fit) {
    do {
      CountDigit(problem, args, group, shared, passes, histograms + passes * kDigitBins);
      ChooseDigit(shared, passes, problem.k);
      ++passes;
    } while (shared.state.candidates > static_cast<uint32_t>(args.capacity) &&
             passes < kDigitPasses);
  }
  const RadixState state = shared.state;
  const uint32_t count = Collect(problem, args, group, shared, Threshold(state));
  // Nobody reads this problem's counts any more, and the next but one to use them comes after two
  // barriers.
  if (args.blocks_per_group > 1) {
    for (int bin = group.rank() * kSelectThreads + static_cast<int>(threadIdx.x);
         bin < passes * kDigitBins; bin += args.blocks_per_group * kSelectThreads) {
      histograms[bin] = 0;
    }
  }
  if (!group.leads()) return;
  SortCandidates(shared, count);
  const uint32_t wanted = all_fit ? min(count, static_cast<uint32_t>(problem.k)) : state.wanted;
  WriteAnswer(problem, args, shared, wanted, count);
  __syncthreads();
}

__device__ Problem ProblemOf(const SelectArgs& args, int number, const Group& group) {
  const SelectPiece& piece = args.pieces[number / args.queries_count];
  Problem problem;
  problem.query = number % args.queries_count;
  problem.keys = args.keys + problem.query * args.keys_pitch + piece.key_begin;
  problem.k = args.k[problem.query];
  problem.result_slot = piece.result_slot;
  // Stripes of whole 16-byte pairs.
  const int64_t pairs = (piece.keys_count + 1) / 2;
  const int64_t stripe = (pairs + args.blocks_per_group - 1) / args.blocks_per_group * 2;
  problem.begin = min(stripe * group.rank(), piece.keys_count);
  problem.end = min(problem.begin + stripe, piece.keys_count);
  return problem;
}

// Finds, for each problem (piece, query), the k greatest keys, and writes them in descending order.
// Grid groups * blocks_per_group, block 1024: a group of blocks solves the problems group, group +
// groups, ...; groups of
//   several blocks meet at barriers of their own, so the launch is cooperative.
// Reads each key passes + 1 times (8 B, 16-byte loads; the scan has just left them in L2); one pass
// leaves <= capacity
//   candidates for most data, 6 always do. Writes k * 8 B a problem. 1M keys: 8 MB a pass, 2 us;
//   with barriers about 12 us.
// Requires SelectArgs as stated there; keys unique, kNoKey aside.
// Steps: 1 count a digit in shared memory, add up over the group; 2 every block finds the digit of
// the k-th key, the same
//   one; repeat until at most `capacity` keys are left; 3 collect them; 4 the leader sorts and
//   writes.
// Source: radix selection as in Zhang, Naruse, Li, Wang, "Parallel Top-K Algorithms on GPU: A
// Comprehensive Study and New
//   Methods", SC 2023. Differs: 64-bit unique keys, so ties need no care and the result is the same
//   however the blocks run; one cooperative launch decides the number of passes on the device.
__global__ void __launch_bounds__(kSelectThreads, 1)
    SelectKernel(const __grid_constant__ SelectArgs args) {
  extern __shared__ __align__(16) unsigned char shared_bytes[];
  Shared& shared = *reinterpret_cast<Shared*>(shared_bytes);
  Group group(args.groups, args.blocks_per_group);
  const int groups = static_cast<int>(gridDim.x) / args.blocks_per_group;
  const int problems = args.pieces_count * args.queries_count;
  int parity = 0;
  for (int number = group.index(); number < problems; number += groups, parity ^= 1) {
    uint32_t* histograms = nullptr;
    if (args.blocks_per_group > 1) {
      histograms = args.histograms +
                   (static_cast<int64_t>(group.index()) * 2 + parity) * kDigitPasses * kDigitBins;
    }
    SolveProblem(ProblemOf(args, number, group), args, group, shared, histograms);
  }
  group.Leave();
}

}  // namespace

cudaError_t PrepareSelect() {
  cudaError_t error = cudaFuncSetAttribute(
      SelectKernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(sizeof(Shared)));
  if (error != cudaSuccess) return error;
  int blocks = 0;
  error = cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, SelectKernel, kSelectThreads,
                                                        sizeof(Shared));
  if (error != cudaSuccess) return error;
  return blocks >= 1 ? cudaSuccess : cudaErrorInvalidConfiguration;
}

cudaError_t LaunchSelect(int groups, const SelectArgs& args, cudaStream_t stream) {
  const bool together = args.blocks_per_group > 1;
  if (together && groups > kSelectGroupsMax) return cudaErrorInvalidValue;
  cudaLaunchAttribute cooperative = {};
  cooperative.id = cudaLaunchAttributeCooperative;
  cooperative.val.cooperative = 1;
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(static_cast<unsigned>(groups * args.blocks_per_group));
  config.blockDim = dim3(kSelectThreads);
  config.dynamicSmemBytes = sizeof(Shared);
  config.stream = stream;
  config.attrs = &cooperative;
  config.numAttrs = together ? 1 : 0;
  SelectArgs copy = args;
  void* parameters[] = {&copy};
  return cudaLaunchKernelExC(&config, reinterpret_cast<const void*>(SelectKernel), parameters);
}

}  // namespace nearfield::gpu
