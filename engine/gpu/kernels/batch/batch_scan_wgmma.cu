// The scan of codes for a batch of queries with wgmma, with all operands in shared memory. For
// compute capability 9.0.
#include <cstdint>

#include "engine/gpu/kernels/batch/batch.h"
#include "engine/gpu/kernels/batch/batch_keep.cuh"
#include "engine/gpu/kernels/batch/batch_query_tiles.cuh"
#include "engine/gpu/kernels/batch/batch_ring.cuh"
#include "engine/gpu/kernels/batch/batch_table.h"
#include "engine/gpu/kernels/batch/warpgroup_products.cuh"
#include "engine/gpu/kernels/primitives/row_elements.cuh"

namespace nearfield::gpu {
namespace {

struct ScanShape {
  int query_tiles = 0;
  RingShape ring;
};

constexpr int kThreadsMax = kBatchWarpgroupsMax * kWarpgroup;

template <int kQueries, bool kChoose>
struct ScanShared : TilesOfWarps<kQueries, kThreadsMax / kWarp, kChoose> {
  uint64_t arrivals[kBatchWarpgroupsMax][kStagesMax];
  SharedQueries<kQueries> queries;
  SurvivorRing survivors[kThreadsMax / kWarp];
};

// Dynamic shared memory of a block without its rings, in bytes: the codes of the queries in slices
// of 128 bytes. It begins at a multiple of 1,024 bytes.
template <int kQueries>
constexpr int64_t QueriesBytesOf(int32_t code_stride) {
  return int64_t{kQueries} * code_stride + 1024;
}

__device__ __forceinline__ void GroupBarrierWait(int group) {
  asm volatile("bar.sync %0, %1;\n" ::"r"(group + 1), "n"(kWarpgroup) : "memory");
}

// Multiplies the codes of a stage's rows with those of kQueries queries. Lists, for each query, the
// rows whose bound reaches its threshold. kChoose: of the rows that the query sees.
// Grid (lanes * query tiles), block 256 or 384. A block keeps the codes of its queries in shared
// memory. Each of its warpgroups has tiles of 64 rows and a ring of 128-byte slices of its own, so
// that one compares while the others multiply. Reads the rows of the stage once for every kQueries
// queries (bulk copies of 1 KiB).
//   1M x 1024, 1,024 queries: 2.1e15 operations, 1.1 ms at 1,979 TOPS; 8.4 GB through L2.
// Requires ScanVariant::shared_bytes of dynamic shared memory; grid = a whole number of query
// tiles. Steps: 1 queries and terms, 2 for each tile: slices through the ring, products, bounds,
// survivors. Source: PTX ISA, "Asynchronous warpgroup level matrix instructions"; CUTLASS,
// cute/arch/mma_sm90_desc.hpp (layouts).
template <int kQueries, bool kAll, bool kChoose>
__global__ void __launch_bounds__(kThreadsMax, 1)
    BatchScanKernel(const __grid_constant__ BatchArgs args, const BatchStage stage,
                    const __grid_constant__ ScanShape shape) {
  extern __shared__ unsigned char dynamic_bytes[];
  __shared__ ScanShared<kQueries, kChoose> shared;
  unsigned char* const base = AlignedTo1024(dynamic_bytes);
  const int slices = args.code_stride / kSliceBytes;
  const int group = static_cast<int>(threadIdx.x) / kWarpgroup;
  unsigned char* const queries = base;
  const RingShape& ring_shape = shape.ring;
  unsigned char* const ring_bytes = base + kQueries * args.code_stride + group * ring_shape.bytes();
  const uint32_t ring = SharedAddress(ring_bytes);
  const auto threads = static_cast<int>(blockDim.x);
  const auto query_tiles = static_cast<uint32_t>(shape.query_tiles);
  const int first_query = static_cast<int>(blockIdx.x % query_tiles) * kQueries;
  if (!AnyAlive(args, first_query, kQueries)) return;
  for (int i = static_cast<int>(threadIdx.x); i < kQueries * slices * 8; i += threads) {
    const int query = i / (slices * 8);
    const int chunk = i % (slices * 8);
    uint4 value = {};
    if (first_query + query < args.queries) {
      value = reinterpret_cast<const uint4*>(
          args.first + static_cast<int64_t>(first_query + query) * args.code_stride)[chunk];
    }
    *reinterpret_cast<uint4*>(queries + chunk / 8 * (kQueries * kSliceBytes) +
                              ChunkOffset(query, chunk % 8)) = value;
  }
  shared.queries.Load(args, first_query);
  if (threadIdx.x < kBatchWarpgroupsMax * kStagesMax) {
    InitArrival(&shared.arrivals[threadIdx.x / kStagesMax][threadIdx.x % kStagesMax], 1);
  }
  asm volatile("fence.mbarrier_init.release.cluster;\n" ::: "memory");
  asm volatile("fence.proxy.async.shared::cta;\n" ::: "memory");
  __syncthreads();

  const auto warpgroups = static_cast<uint32_t>(ring_shape.warpgroups);
  const uint32_t first_tile = blockIdx.x / query_tiles * warpgroups + static_cast<uint32_t>(group);
  const uint32_t tiles_step = gridDim.x / query_tiles * warpgroups;
  if (first_tile >= stage.tiles) return;
  uint64_t* const arrivals = shared.arrivals[group];
  RowSender sender(args, stage, ring_shape, ring, arrivals, first_tile, tiles_step);
  for (int i = 0; i < ring_shape.stages; ++i) sender.SendNext(slices);
  QueryTiles<kQueries> own_tiles(args, first_query);
  SurvivorList list(args, shared.survivors[threadIdx.x / kWarp]);
  int at = 0;           // stage of the ring
  uint32_t parity = 0;  // of the ring's current round
  bool began = false;
  for (uint32_t tile = first_tile; tile < stage.tiles; tile += tiles_step) {
    int32_t sums[kQueries / 2];
    const unsigned char* bounds = nullptr;
    const uint32_t tile_index = TileAt(stage, tile);
    const uint32_t first_row_index = tile_index * kBatchTileRows;
    uint64_t absent = 0;
    for (int slice = 0; slice < slices; ++slice) {
      AwaitArrival(arrivals + at, parity);
      const uint32_t rows = ring + static_cast<uint32_t>(at * kTileSliceBytes);
      bounds = ring_bytes + BoundsOffset(ring_shape, at);
      const uint32_t of_queries =
          SharedAddress(queries) + static_cast<uint32_t>(slice) * (kQueries * kSliceBytes);
      BeginProducts();
#pragma unroll
      for (int part = 0; part < kSliceBytes / kProductBytes; ++part) {
        CodeProducts<kQueries>::Add(sums, OperandAt(rows + part * kProductBytes),
                                    OperandAt(of_queries + part * kProductBytes),
                                    slice > 0 || part > 0);
      }
      CommitProducts();
      // Read here, so that it is available when the products are.
      if (slice == 0) {
        const TileLocation location(args.corpus, tile_index);
        absent = location.Absent();
        if constexpr (kChoose) own_tiles.Fetch(location);
      }
      if (++at == ring_shape.stages) {
        at = 0;
        parity ^= 1;
      }
      // While these products run, replace the previous slice: all warps are done with it.
      WaitProducts<1>();
      GroupBarrierWait(group);
      if (began) sender.SendNext(slices);
      began = true;
    }
    WaitProducts<0>();
    // The bounds' stage in the ring is reused only after the whole warpgroup is here again.
    const MyRows mine(bounds, absent, threadIdx.x % kWarpgroup / kWarp * 16);
    QueriesView view = shared.queries.From(0, first_query);
    if constexpr (kChoose) {
      WarpTile<kQueries>& of_warp = shared.tiles[threadIdx.x / kWarp];
      own_tiles.Store(view.terms, of_warp);
      view.See(of_warp);
    }
    if constexpr (kAll) {
      KeepAll<kQueries, kChoose>(args, sums, mine, first_row_index, view,
                                 int64_t{tile} * kBatchTileRows);
    } else {
      KeepSome<kQueries, kChoose>(sums, mine, first_row_index, view, list);
    }
  }
  if constexpr (!kAll) list.Flush();
}

using ScanPointer = void (*)(BatchArgs, BatchStage, ScanShape);

struct ScanVariant {
  int queries;
  ScanPointer all;
  ScanPointer some;
  RingShape ring;  // for the given code stride, as is shared_bytes
  int64_t shared_bytes;
  int64_t shared_bytes_max;  // for any code stride
};

template <int kQueries, bool kChoose>
constexpr RingShape RingFor(int32_t code_stride) {
  return ShapeRing(kSharedBytesMax - int64_t{sizeof(ScanShared<kQueries, kChoose>)} -
                       QueriesBytesOf<kQueries>(code_stride),
                   code_stride / kSliceBytes);
}
static_assert(RingFor<16, true>(CodeBytesOf(kBatchDimMax)).warpgroups > 0,
              "every dimension has a block");

template <int kQueries, bool kChoose>
ScanVariant VariantOf(int32_t code_stride) {
  const RingShape ring = RingFor<kQueries, kChoose>(code_stride);
  return {kQueries,
          BatchScanKernel<kQueries, true, kChoose>,
          BatchScanKernel<kQueries, false, kChoose>,
          ring,
          QueriesBytesOf<kQueries>(code_stride) + ring.warpgroups * int64_t{ring.bytes()},
          kSharedBytesMax - int64_t{sizeof(ScanShared<kQueries, kChoose>)}};
}

// Returns the narrowest block that takes all queries, or else the widest that fits.
template <bool kChoose>
ScanVariant SelectVariant(int queries, int32_t code_stride) {
  ScanVariant selected = VariantOf<16, kChoose>(code_stride);
  for (const ScanVariant& variant :
       {VariantOf<32, kChoose>(code_stride), VariantOf<64, kChoose>(code_stride),
        VariantOf<128, kChoose>(code_stride)}) {
    if (variant.ring.warpgroups > 0 && selected.queries < queries) selected = variant;
  }
  return selected;
}

}  // namespace

int BatchQueriesAtOnceWgmma(int queries, int32_t code_stride) {
  return SelectVariant<false>(queries, code_stride).queries;
}

cudaError_t PrepareBatchScanWgmma() {
  for (const int queries : {16, 32, 64, 128}) {
    for (const ScanVariant& variant :
         {SelectVariant<false>(queries, kSliceBytes), SelectVariant<true>(queries, kSliceBytes)}) {
      for (const ScanPointer kernel : {variant.all, variant.some}) {
        const cudaError_t error = cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel),
                                                       cudaFuncAttributeMaxDynamicSharedMemorySize,
                                                       static_cast<int>(variant.shared_bytes_max));
        if (error != cudaSuccess) return error;
      }
    }
  }
  return PrepareBatchScanRs();
}

cudaError_t LaunchBatchScanWgmma(const BatchArgs& args, const BatchStage& stage, int sm_count,
                                 cudaStream_t stream) {
  const bool chooses = args.ChoosesRows();
  if (stage.done_step != 0 && !chooses && BatchScanRsServes(args.queries, args.code_stride)) {
    return LaunchBatchScanRs(args, stage, sm_count, stream);
  }
  const ScanVariant variant = chooses ? SelectVariant<true>(args.queries, args.code_stride)
                                      : SelectVariant<false>(args.queries, args.code_stride);
  ScanShape shape = {(args.queries + variant.queries - 1) / variant.queries, variant.ring};
  const int lanes = sm_count > shape.query_tiles ? sm_count / shape.query_tiles : 1;
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(static_cast<unsigned>(lanes * shape.query_tiles));
  config.blockDim = dim3(static_cast<unsigned>(variant.ring.warpgroups * kWarpgroup));
  config.dynamicSmemBytes = static_cast<size_t>(variant.shared_bytes);
  config.stream = stream;
  BatchStage copy = stage;
  void* parameters[] = {const_cast<BatchArgs*>(&args), &copy, &shape};
  return cudaLaunchKernelExC(
      &config, reinterpret_cast<const void*>(stage.done_step == 0 ? variant.all : variant.some),
      parameters);
}

}  // namespace nearfield::gpu