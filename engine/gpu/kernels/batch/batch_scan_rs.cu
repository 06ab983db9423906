// The scan "rs" (queries in registers, rows in shared memory): the scan of codes for a batch of
// queries that fit in a block's registers.
#include <cstdint>

#include "engine/cuda/warp.h"
#include "engine/gpu/kernels/batch/batch.h"
#include "engine/gpu/kernels/batch/batch_keep_rs.cuh"
#include "engine/gpu/kernels/batch/batch_ring_rs.cuh"
#include "engine/gpu/kernels/batch/batch_table.h"

namespace nearfield::gpu {
namespace {

constexpr int kRsSlicesMax = 8;  // slices of a query's code: 128 registers
constexpr int kSliceParts = kSliceBytes / kProductBytes;
// Tiles that a warpgroup processes before it waits for all of its products.
constexpr int kRunTiles = 4;

// Threads of a block: two warpgroups multiply; the first warp of the third one sends, with the
// minimum number of registers.
constexpr int kBlockThreads = kRsThreads + kWarpgroup;
constexpr int kMultiplierRegisters = 240;
constexpr int kSenderRegisters = 24;

struct RsShape {
  int query_tiles = 0;
  RsRingShape ring;
};

// Starts the products of a tile's rows with the queries of this warpgroup.
template <int kParts>
__device__ __forceinline__ void Multiply(const uint32_t (&codes)[kParts][4], uint64_t rows,
                                         RsSums& sums) {
  BeginProducts();
#pragma unroll
  for (int part = 0; part < kParts; ++part) {
    const int offset = part / kSliceParts * kSwizzleAtomBytes + part % kSliceParts * kProductBytes;
    AddProducts(sums, codes[part], rows + (offset >> 4), part > 0);
  }
  CommitProducts();
}

// Multiplies the codes of a stage's rows with those of 128 queries. Lists, for each query, the rows
// whose bound reaches its threshold.
// Grid (lanes * query tiles), cluster of 1 or 2 blocks, block 384. Each of two warpgroups keeps the
// codes of 64 queries in registers. Both process all tiles of 64 rows from one ring that one warp
// fills. While the products of a tile run, those of the tile before are compared. Shared memory is
// read for the rows alone, half of what the tensor cores would read with both operands there, and
// the ring takes nearly all of it. The two blocks of a cluster have different queries and the same
// rows: each reads half of a tile and writes it to both. Reads the rows of the stage once for every
// 256 queries; for every 128 if the number of query tiles is odd.
//   1M x 1024, 1,024 queries: 2.1e15 operations, 1.1 ms at 1,979 TOPS; 4.2 GB through L2.
// Requires RsRingShape::bytes of dynamic shared memory; grid = a whole number of query tiles;
// codes of at most 1,024 bytes.
// Steps: 1 queries to registers, 2 for each tile: products, bounds, survivors.
// Source: PTX ISA, "Asynchronous warpgroup level matrix instructions" (layouts).
template <int kSlices>
__global__ void __launch_bounds__(kBlockThreads, 1)
    BatchScanRsKernel(const __grid_constant__ BatchArgs args, const BatchStage stage,
                      const __grid_constant__ RsShape shape) {
  extern __shared__ unsigned char dynamic_bytes[];
  __shared__ RsShared shared;
  unsigned char* const ring = AlignedTo1024(dynamic_bytes);
  const auto query_tiles = static_cast<uint32_t>(shape.query_tiles);
  const RsQueries queries = {static_cast<int>(blockIdx.x % query_tiles) * kRsQueries, args.queries};
  const Cluster cluster;
  const auto blocks = static_cast<int>(cluster.blocks);
  const int first_of_cluster = queries.first_of_block - static_cast<int>(cluster.rank) * kRsQueries;
  if (!AnyAlive(args, first_of_cluster, blocks * kRsQueries)) return;
  const uint32_t first_tile = blockIdx.x / query_tiles;
  const uint32_t tiles_step = gridDim.x / query_tiles;
  if (threadIdx.x < static_cast<uint32_t>(shape.ring.stages)) {
    InitArrival(&shared.filled[threadIdx.x], 1);
    InitArrival(&shared.emptied[threadIdx.x], kRsWarps * blocks);
  }
  shared.queries.Load(args, queries.first_of_block);
  asm volatile("fence.mbarrier_init.release.cluster;\n" ::: "memory");
  SyncCluster();
  // The shuffle shows the compiler that the value is the same in all lanes.
  const int warp = __shfl_sync(kFullWarp, static_cast<int>(threadIdx.x) / kWarp, 0);
  if (warp >= kRsWarps) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;\n" ::"n"(kSenderRegisters));
    if (warp == kRsWarps) {
      SendTiles(args, stage, shape.ring, ring, shared, first_tile, tiles_step);
    }
    return;
  }
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;\n" ::"n"(kMultiplierRegisters));

  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  uint32_t codes[kSlices * kSliceParts][4] = {};
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    if (!queries.Has(i % 2)) continue;
    const auto* const words = reinterpret_cast<const uint32_t*>(
        args.first + static_cast<int64_t>(queries.At(i % 2)) * (kSlices * kSliceBytes));
#pragma unroll
    for (int part = 0; part < kSlices * kSliceParts; ++part) {
      codes[part][i] = words[part * (kProductBytes / 4) + i / 2 * 4 + lane % 4];
    }
  }
  const ReachTerms reach(queries, shared.queries);
  SurvivorList list(args, shared.survivors[warp]);
  const auto multiply = [&](const RingPosition& at, RsSums& sums) {
    Multiply(
        codes,
        OperandAt(SharedAddress(ring) + static_cast<uint32_t>(at.stage * shape.ring.rows_bytes),
                  static_cast<int>(kSwizzleAtomRows) * kSlices * kSliceBytes),
        sums);
  };
  const auto keep = [&](const RingPosition& at, RsSums& sums) {
    if (lane < blocks) ArriveAt(&shared.emptied[at.stage], static_cast<uint32_t>(lane));
    const SentTile& sent = shared.tiles[at.bounds_stage];
    const RsTile tile = {
        reinterpret_cast<const bound::RowBound*>(ring + shape.ring.BoundsAt(at.bounds_stage)),
        sent.first_row_index, sent.absent};
    KeepSomeRows(sums, reach, shared.queries, queries, tile, list);
  };
  RsSums sums[2];
  RingPosition at;
  for (uint32_t first = first_tile; first < stage.tiles; first += kRunTiles * tiles_step) {
    const auto exists = [&](int i) {
      return first + static_cast<uint32_t>(i) * tiles_step < stage.tiles;
    };
    const auto start = [&](int i, const RingPosition& position) {
      // Without a tile, products multiply stale data: a branch around them would make the compiler
      // wait for all of them.
      if (exists(i)) AwaitArrival(&shared.filled[position.stage], position.parity);
      multiply(position, sums[i % 2]);
    };
    start(0, at);
#pragma unroll
    for (int i = 0; i < kRunTiles; ++i) {
      RingPosition next = at;
      next.Next(shape.ring);
      if (i + 1 < kRunTiles) {
        start(i + 1, next);
        WaitProducts<1>();
      } else {
        WaitProducts<0>();
      }
      FenceSums(sums[i % 2]);  // needed even if unused: the products write these until here
      if (exists(i)) keep(at, sums[i % 2]);
      at = next;
    }
  }
  list.Flush();
  SyncCluster();  // no block ends while another one arrives at its barriers
}

using RsKernelPointer = void (*)(BatchArgs, BatchStage, RsShape);

constexpr RsKernelPointer kKernelOfSlices[kRsSlicesMax] = {
    BatchScanRsKernel<1>, BatchScanRsKernel<2>, BatchScanRsKernel<3>, BatchScanRsKernel<4>,
    BatchScanRsKernel<5>, BatchScanRsKernel<6>, BatchScanRsKernel<7>, BatchScanRsKernel<8>};

}  // namespace

bool BatchScanRsServes(int queries, int32_t code_stride) {
  return queries > kRsQueries / 2 && code_stride <= kRsSlicesMax * kSliceBytes;
}

cudaError_t PrepareBatchScanRs() {
  for (const RsKernelPointer kernel : kKernelOfSlices) {
    const cudaError_t error = cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel),
                                                   cudaFuncAttributeMaxDynamicSharedMemorySize,
                                                   static_cast<int>(kRsSharedBytesMax));
    if (error != cudaSuccess) return error;
  }
  return cudaSuccess;
}

cudaError_t LaunchBatchScanRs(const BatchArgs& args, const BatchStage& stage, int sm_count,
                              cudaStream_t stream) {
  RsShape shape = {(args.queries + kRsQueries - 1) / kRsQueries, RsRingShape(args.code_stride)};
  const int lanes = sm_count > shape.query_tiles ? sm_count / shape.query_tiles : 1;
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(static_cast<unsigned>(lanes * shape.query_tiles));
  config.blockDim = dim3(kBlockThreads);
  config.dynamicSmemBytes = static_cast<size_t>(shape.ring.bytes());
  config.stream = stream;
  cudaLaunchAttribute attribute = {};
  attribute.id = cudaLaunchAttributeClusterDimension;
  attribute.val.clusterDim = {shape.query_tiles % 2 == 0 ? 2u : 1u, 1, 1};
  config.attrs = &attribute;
  config.numAttrs = 1;
  BatchStage copy = stage;
  void* parameters[] = {const_cast<BatchArgs*>(&args), &copy, &shape};
  return cudaLaunchKernelExC(
      &config, reinterpret_cast<const void*>(kKernelOfSlices[args.code_stride / kSliceBytes - 1]),
      parameters);
}

}  // namespace nearfield::gpu
