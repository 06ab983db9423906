// The scan of codes for a batch of queries that fit in a block's registers.
#include <cstdint>

#include "engine/gpu/kernels/batch/batch.h"
#include "engine/gpu/kernels/batch/batch_table.h"
#include "engine/gpu/kernels/batch/held_keep.cuh"
#include "engine/gpu/kernels/batch/held_ring.cuh"
#include "engine/topk/warp.h"

namespace nearfield::gpu {
namespace {

constexpr int kHeldLinesMax = 8;  // lines of a query's code: 128 registers
constexpr int kPartsOfLine = kCodeLineBytes / kProductBytes;

// Threads of a block: two warpgroups multiply; the first warp of the third one sends, with the
// minimum number of registers.
constexpr int kBlockThreads = kHeldThreads + kWarpgroup;
constexpr int kMultiplierRegisters = 240;
constexpr int kSenderRegisters = 24;

struct HeldShape {
  int query_tiles = 0;
  HeldRingShape ring;
};

// Starts the products of a tile's rows with the queries of this warpgroup.
template <int kParts>
__device__ __forceinline__ void Multiply(const uint32_t (&codes)[kParts][4], uint64_t rows,
                                         HeldSums& sums) {
  BeginProducts();
#pragma unroll
  for (int part = 0; part < kParts; ++part) {
    const int offset = part / kPartsOfLine * kCodeLineStride + part % kPartsOfLine * kProductBytes;
    AddProducts(sums, codes[part], rows + (offset >> 4), part > 0);
  }
  CommitProducts();
}

// Multiplies the codes of a stage's rows with those of 128 queries. Lists, for each query, the rows
// whose bound reaches its threshold.
// Grid (lanes * query tiles), block 384. Each of two warpgroups keeps the codes of 64 queries in
// registers. Both process all tiles of 64 rows, two at a time, from one ring that one warp fills.
// While the products of the second tile run, those of the first are compared. Shared memory is read
// for the rows alone, half of what the tensor cores would read with both operands there, and the
// ring takes nearly all of it. Reads the rows of the stage once for every 128 queries (one bulk
// copy per tile).
//   1M x 1024, 1,024 queries: 2.1e15 operations, 1.1 ms at 1,979 TOPS; 8.4 GB through L2.
// Requires HeldRingShape::bytes of dynamic shared memory; grid = a whole number of query tiles;
// codes of at most 1,024 bytes.
// Steps: 1 queries to registers, 2 for each pair of tiles: products, bounds, survivors.
// Source: PTX ISA, "Asynchronous warpgroup level matrix instructions" (layouts).
template <int kLines>
__global__ void __launch_bounds__(kBlockThreads, 1)
    HeldScanKernel(const __grid_constant__ BatchArgs args, const BatchStage stage,
                   const __grid_constant__ HeldShape shape) {
  extern __shared__ unsigned char dynamic_bytes[];
  __shared__ HeldShared shared;
  unsigned char* const ring = AlignedTo1024(dynamic_bytes);
  const auto query_tiles = static_cast<uint32_t>(shape.query_tiles);
  const HeldQueries queries = {static_cast<int>(blockIdx.x % query_tiles) * kHeldQueries,
                               args.queries};

  const uint32_t first_tile = blockIdx.x / query_tiles;
  const uint32_t tiles_step = gridDim.x / query_tiles;
  if (threadIdx.x < static_cast<uint32_t>(shape.ring.places)) {
    InitArrival(&shared.filled[threadIdx.x], 1);
    InitArrival(&shared.emptied[threadIdx.x], kHeldWarps);
  }
  for (int query = static_cast<int>(threadIdx.x); query < kHeldQueries; query += kBlockThreads) {
    const int of_batch = queries.first_of_block + query;
    shared.queries.terms[query] = TermsOf(args, of_batch);
    shared.queries.squared_norm_lower[query] = SquaredNormLowerOf(args, of_batch);
    shared.queries.wanted[query] = IsWanted(args, of_batch);
  }
  asm volatile("fence.mbarrier_init.release.cluster;\n" ::: "memory");
  __syncthreads();
  // The shuffle shows the compiler that the value is the same in all lanes.
  const int warp = __shfl_sync(kFullWarp, static_cast<int>(threadIdx.x) / kWarp, 0);
  if (warp >= kHeldWarps) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;\n" ::"n"(kSenderRegisters));
    if (warp == kHeldWarps) {
      SendTiles(args, stage, shape.ring, ring, shared, first_tile, tiles_step);
    }
    return;
  }
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;\n" ::"n"(kMultiplierRegisters));

  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  uint32_t codes[kLines * kPartsOfLine][4] = {};
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    if (!queries.Has(i % 2)) continue;
    const auto* const words = reinterpret_cast<const uint32_t*>(
        args.first + static_cast<int64_t>(queries.At(i % 2)) * (kLines * kCodeLineBytes));
#pragma unroll
    for (int part = 0; part < kLines * kPartsOfLine; ++part) {
      codes[part][i] = words[part * (kProductBytes / 4) + i / 2 * 4 + lane % 4];
    }
  }
  const ReachTerms reach(queries, shared.queries);
  SurvivorList list(args, shared.survivors[warp]);
  const auto multiply = [&](const RingPlace& at, HeldSums& sums) {
    Multiply(
        codes,
        OperandAt(SharedAddress(ring) + static_cast<uint32_t>(at.place * shape.ring.rows_bytes),
                  static_cast<int>(kCodeGroupRows) * kLines * kCodeLineBytes),
        sums);
  };
  const auto keep = [&](const RingPlace& at, HeldSums& sums) {
    if (lane == 0) Arrive(&shared.emptied[at.place]);
    const SentTile& sent = shared.tiles[at.bounds_place];
    const HeldTile tile = {
        reinterpret_cast<const score::RowBound*>(ring + shape.ring.BoundsAt(at.bounds_place)),
        sent.first_number, sent.absent};
    KeepSomeRows(sums, reach, shared.queries, queries, tile, list);
  };
  HeldSums sums[2];
  RingPlace first;
  for (uint32_t tile = first_tile; tile < stage.tiles; tile += 2 * tiles_step) {
    AwaitArrival(&shared.filled[first.place], first.parity);
    multiply(first, sums[0]);
    RingPlace second = first;
    second.Next(shape.ring);
    const bool two = tile + tiles_step < stage.tiles;
    if (two) AwaitArrival(&shared.filled[second.place], second.parity);
    // Without a second tile this multiplies stale data: a branch around the products would make the
    // compiler wait for all of them.
    multiply(second, sums[1]);
    WaitProducts<1>();
    HoldSums(sums[0]);
    keep(first, sums[0]);
    WaitProducts<0>();
    // Needed even if unused: the products write these registers until here.
    HoldSums(sums[1]);
    if (two) keep(second, sums[1]);
    first = second;
    first.Next(shape.ring);
  }
  list.Flush();
}

using HeldPointer = void (*)(BatchArgs, BatchStage, HeldShape);

constexpr HeldPointer kKernelOfLines[kHeldLinesMax] = {
    HeldScanKernel<1>, HeldScanKernel<2>, HeldScanKernel<3>, HeldScanKernel<4>,
    HeldScanKernel<5>, HeldScanKernel<6>, HeldScanKernel<7>, HeldScanKernel<8>};

}  // namespace

bool HeldScanServes(int queries, int32_t code_stride) {
  return queries > kHeldQueries / 2 && code_stride <= kHeldLinesMax * kCodeLineBytes;
}

cudaError_t PrepareHeldScan() {
  for (const HeldPointer kernel : kKernelOfLines) {
    const cudaError_t error = cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel),
                                                   cudaFuncAttributeMaxDynamicSharedMemorySize,
                                                   static_cast<int>(kHeldSharedBytesMax));
    if (error != cudaSuccess) return error;
  }
  return cudaSuccess;
}

cudaError_t LaunchHeldScan(const BatchArgs& args, const BatchStage& stage, int sm_count,
                           cudaStream_t stream) {
  HeldShape shape = {(args.queries + kHeldQueries - 1) / kHeldQueries,
                     HeldRingShape(args.code_stride)};
  const int lanes = sm_count > shape.query_tiles ? sm_count / shape.query_tiles : 1;
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(static_cast<unsigned>(lanes * shape.query_tiles));
  config.blockDim = dim3(kBlockThreads);
  config.dynamicSmemBytes = static_cast<size_t>(shape.ring.bytes());
  config.stream = stream;
  BatchStage copy = stage;
  void* parameters[] = {const_cast<BatchArgs*>(&args), &copy, &shape};
  return cudaLaunchKernelExC(
      &config, reinterpret_cast<const void*>(kKernelOfLines[args.code_stride / kCodeLineBytes - 1]),
      parameters);
}

}  // namespace nearfield::gpu
