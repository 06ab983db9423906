// The scan of codes for a batch of queries with mma.sync, for every supported card.
#include <cuda_pipeline_primitives.h>

#include <algorithm>
#include <cstdint>

#include "engine/cuda/warp.h"
#include "engine/gpu/kernels/batch/batch.h"
#include "engine/gpu/kernels/batch/batch_keep.cuh"
#include "engine/gpu/kernels/batch/batch_query_tiles.cuh"
#include "engine/gpu/kernels/batch/batch_table.h"
#include "engine/gpu/kernels/batch/batch_tiles.cuh"
#include "engine/gpu/kernels/batch/mma_products.cuh"

namespace nearfield::gpu {
namespace {

constexpr int kWarps = 4;
constexpr int kThreads = kWarps * kWarp;
constexpr int kTilesOfPair = 2;
constexpr int kRowsOfPair = kTilesOfPair * kBatchTileRows;
constexpr int kGroupsOfPair = kRowsOfPair / static_cast<int>(kSwizzleAtomRows);
constexpr int kChunkBytes = 16;  // of one asynchronous copy
constexpr int kStagesMax = 4;

// How a block of kQueries queries divides its pair of tiles among its warps.
template <int kQueries>
struct WarpShape {
  static constexpr int kWarpQueries = kQueries < 64 ? kQueries : 64;
  static constexpr int kWarpsOfRows = kWarps / (kQueries / kWarpQueries);
  static constexpr int kWarpRows = kRowsOfPair / kWarpsOfRows;
  static constexpr int kRowBlocks = kWarpRows / kMmaRows;
  static constexpr int kSums = kWarpQueries / 2;  // of a thread, for each row block
  static constexpr int kBlocksPerSm = kQueries == 128 ? 2 : kQueries == 64 ? 3 : 4;
};

// A stage of the ring holds one slice of a pair's rows and of the block's queries. The bounds of
// the rows come with the last slice.
template <int kQueries>
struct StageLayout {
  static constexpr int kQueriesAt = kTilesOfPair * kTileSliceBytes;
  static constexpr int kBoundsAt = kQueriesAt + kQueries * kSliceBytes;
  static constexpr int kBytes = kBoundsAt + kTilesOfPair * kTileBoundsBytes;
};

struct MmaShape {
  int query_tiles = 0;
  int stages = 0;  // of the ring
};

template <int kQueries, bool kChoose>
struct MmaShared : TilesOfWarps<WarpShape<kQueries>::kWarpQueries, kWarps, kChoose> {
  SharedQueries<kQueries> queries;
  SurvivorRing survivors[kWarps];
};

__device__ __forceinline__ void CopyChunk(unsigned char* to, const char* from) {
  __pipeline_memcpy_async(to, from, kChunkBytes);
}

// Copies slices of a pair's rows and of the queries to the ring, one slice per call. A warp copies
// four groups of eight rows, which are in one tile. Requires: all threads of the block call.
template <int kQueries>
class SliceLoader {
 public:
  __device__ SliceLoader(const BatchArgs& args, const BatchStage& stage, const MmaShape& shape,
                         unsigned char* ring, uint32_t first_pair, uint32_t pairs_step)
      : args_(args),
        stage_(stage),
        stages_(shape.stages),
        ring_(ring),
        first_query_(static_cast<int>(blockIdx.x) % shape.query_tiles * kQueries),
        pair_(first_pair),
        pairs_step_(pairs_step) {
    FindRows();
  }

  // Starts copying the next slice, if there is one. Requires: the ring has room for it.
  __device__ __forceinline__ void LoadNext(int slices) {
    if (kTilesOfPair * pair_ < stage_.tiles) {
      unsigned char* const to = ring_ + at_ * StageLayout<kQueries>::kBytes;
      CopyRows(to);
      CopyQueries(to + StageLayout<kQueries>::kQueriesAt);
      if (slice_ + 1 == slices) CopyBounds(to + StageLayout<kQueries>::kBoundsAt);
      if (++slice_ == slices) {
        slice_ = 0;
        pair_ += pairs_step_;
        FindRows();
      }
    }
    at_ = at_ + 1 == stages_ ? 0 : at_ + 1;
    __pipeline_commit();
  }

 private:
  static constexpr int kGroupsOfWarp = kGroupsOfPair / kWarps;
  static constexpr int kGroupBoundsBytes = static_cast<int>(kSwizzleAtomRows) * kBoundBytes;
  static_assert(kGroupsOfWarp * kGroupBoundsBytes == kWarp * kChunkBytes, "one chunk a lane");

  __device__ static int Lane() { return static_cast<int>(threadIdx.x) % kWarp; }
  __device__ static int Warp() { return static_cast<int>(threadIdx.x) / kWarp; }

  // Finds this lane's group of rows. Groups that do not exist are replaced by the last one.
  __device__ __forceinline__ void FindRows() {
    if (kTilesOfPair * pair_ >= stage_.tiles) return;
    const int group = Warp() * kGroupsOfWarp + Lane() / (kWarp / kGroupsOfWarp);
    const uint32_t groups_of_tile = kBatchTileRows / kSwizzleAtomRows;
    const uint32_t tile =
        min(kTilesOfPair * pair_ + static_cast<uint32_t>(group) / groups_of_tile, stage_.tiles - 1);
    const TileLocation location(args_.corpus, TileAt(stage_, tile));
    rows_ = location.GroupOf(static_cast<uint32_t>(group) % groups_of_tile * kSwizzleAtomRows);
  }

  __device__ __forceinline__ void CopyRows(unsigned char* to) const {
    to += Warp() * kGroupsOfWarp * kSwizzleAtomBytes + Lane() * kChunkBytes;
    const int from_at = slice_ * kSwizzleAtomBytes + Lane() * kChunkBytes;
    const auto mine = reinterpret_cast<unsigned long long>(rows_.slices);
#pragma unroll
    for (int group = 0; group < kGroupsOfWarp; ++group) {
      const char* const from = reinterpret_cast<const char*>(
                                   __shfl_sync(kFullWarp, mine, group * (kWarp / kGroupsOfWarp))) +
                               from_at;
#pragma unroll
      for (int half = 0; half < kSwizzleAtomBytes; half += kWarp * kChunkBytes) {
        CopyChunk(to + group * kSwizzleAtomBytes + half, from + half);
      }
    }
  }

  // Queries beyond the batch are replaced by the last one.
  __device__ __forceinline__ void CopyQueries(unsigned char* to) const {
    const int chunk = static_cast<int>(threadIdx.x) % kSliceChunks;
#pragma unroll
    for (int i = 0; i < kQueries; i += kThreads / kSliceChunks) {
      const int query = i + static_cast<int>(threadIdx.x) / kSliceChunks;
      const int of_batch = min(first_query_ + query, args_.queries - 1);
      CopyChunk(to + ChunkOffset(query, chunk),
                args_.first + static_cast<int64_t>(of_batch) * args_.code_stride +
                    slice_ * kSliceBytes + chunk * kChunkBytes);
    }
  }

  __device__ __forceinline__ void CopyBounds(unsigned char* to) const {
    constexpr int kChunksOfGroup = kGroupBoundsBytes / kChunkBytes;
    CopyChunk(to + (Warp() * kWarp + Lane()) * kChunkBytes,
              rows_.bounds + Lane() % kChunksOfGroup * kChunkBytes);
  }

  const BatchArgs& args_;
  const BatchStage& stage_;
  const int stages_;
  unsigned char* const ring_;
  const int first_query_;
  uint32_t pair_;
  const uint32_t pairs_step_;
  int slice_ = 0;
  int at_ = 0;
  TileLocation::Group rows_;  // this lane's
};

// Adds the products of one slice. rows, queries: addresses of this warp's slices in shared memory.
template <int kQueries>
__device__ __forceinline__ void AddSlice(
    uint32_t rows, uint32_t queries,
    int32_t (&sums)[WarpShape<kQueries>::kRowBlocks][WarpShape<kQueries>::kSums]) {
  using Shape = WarpShape<kQueries>;
#pragma unroll
  for (int part = 0; part < kSliceBytes / kMmaBytes; ++part) {
    uint32_t row_codes[Shape::kRowBlocks][4];
#pragma unroll
    for (int block = 0; block < Shape::kRowBlocks; ++block) {
      LoadCodes<true>(rows + block * kMmaRows * kSliceBytes, part, row_codes[block]);
    }
#pragma unroll
    for (int pair = 0; pair < Shape::kWarpQueries / (2 * kMmaQueries); ++pair) {
      uint32_t query_codes[4];
      LoadCodes<false>(queries + pair * 2 * kMmaQueries * kSliceBytes, part, query_codes);
#pragma unroll
      for (int block = 0; block < Shape::kRowBlocks; ++block) {
        AddProducts(sums[block] + 8 * pair, row_codes[block], query_codes[0], query_codes[1]);
        AddProducts(sums[block] + 8 * pair + 4, row_codes[block], query_codes[2], query_codes[3]);
      }
    }
  }
}

// Multiplies the codes of a stage's rows with those of kQueries queries. Lists, for each query, the
// rows whose bound reaches its threshold. kChoose: of the rows that the query sees.
// Grid (lanes * query tiles), block 128. A block multiplies pairs of 64-row tiles; slices of 128
// bytes of the rows and of the queries stream through one ring (cp.async), so that any dimension
// fits. Two or more blocks share an SM: one compares while another multiplies. Reads the rows of
// the stage once for every kQueries queries, and the queries once for every 128 rows.
//   1M x 1024, 1,024 queries: 2.1e15 operations; 17 GB through L2.
// Requires: `stages` times StageLayout::kBytes + 1,024 bytes of dynamic shared memory; grid = a
// whole number of query tiles. Steps: 1 queries' terms, 2 for each pair: slices through the ring,
// products, bounds, survivors. Source: PTX ISA, "Warp-level matrix instructions".
template <int kQueries, bool kAll, bool kChoose>
__global__ void __launch_bounds__(kThreads, WarpShape<kQueries>::kBlocksPerSm)
    BatchScanMmaKernel(const __grid_constant__ BatchArgs args, const BatchStage stage,
                       const __grid_constant__ MmaShape shape) {
  using Shape = WarpShape<kQueries>;
  using Layout = StageLayout<kQueries>;
  extern __shared__ unsigned char dynamic_bytes[];
  __shared__ MmaShared<kQueries, kChoose> shared;
  unsigned char* const ring = AlignedTo1024(dynamic_bytes);
  const auto query_tiles = static_cast<uint32_t>(shape.query_tiles);
  const int first_query = static_cast<int>(blockIdx.x % query_tiles) * kQueries;
  if (!AnyAlive(args, first_query, kQueries)) return;
  const uint32_t first_pair = blockIdx.x / query_tiles;
  const uint32_t pairs_step = gridDim.x / query_tiles;
  const int slices = args.code_stride / kSliceBytes;
  shared.queries.Load(args, first_query);
  SliceLoader<kQueries> loader(args, stage, shape, ring, first_pair, pairs_step);
  for (int i = 0; i + 1 < shape.stages; ++i) loader.LoadNext(slices);

  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  const int first_row = warp % Shape::kWarpsOfRows * Shape::kWarpRows;  // of the warp, in the pair
  const int warp_query = warp / Shape::kWarpsOfRows * Shape::kWarpQueries;
  const auto tile_of_pair = static_cast<uint32_t>(first_row / kBatchTileRows);
  QueriesView queries = shared.queries.From(warp_query, first_query);
  if constexpr (kChoose) queries.See(shared.tiles[warp]);
  QueryTiles<Shape::kWarpQueries> own_tiles(args, queries.first);
  SurvivorList list(args, shared.survivors[warp]);
  int at = 0;  // stage of the ring
  for (uint32_t pair = first_pair; kTilesOfPair * pair < stage.tiles; pair += pairs_step) {
    int32_t sums[Shape::kRowBlocks][Shape::kSums] = {};
    const uint32_t tile = kTilesOfPair * pair + tile_of_pair;
    const uint32_t tile_index = TileAt(stage, min(tile, stage.tiles - 1));
    const unsigned char* bounds = nullptr;
    uint64_t absent = 0;
    for (int slice = 0; slice < slices; ++slice) {
      __pipeline_wait_prior(static_cast<size_t>(shape.stages) - 2);
      __syncthreads();
      loader.LoadNext(slices);
      const unsigned char* const stage_bytes = ring + at * Layout::kBytes;
      const uint32_t address = SharedAddress(stage_bytes);
      AddSlice<kQueries>(
          address + static_cast<uint32_t>(first_row * kSliceBytes),
          address + static_cast<uint32_t>(Layout::kQueriesAt + warp_query * kSliceBytes), sums);
      bounds = stage_bytes + Layout::kBoundsAt + tile_of_pair * kTileBoundsBytes;
      // Read here, so that it is available when the products are.
      if (slice == 0) {
        const TileLocation location(args.corpus, tile_index);
        absent = location.Absent();
        if constexpr (kChoose) own_tiles.Fetch(location);
      }
      at = at + 1 == shape.stages ? 0 : at + 1;
    }
    if (tile >= stage.tiles) continue;
    if constexpr (kChoose) own_tiles.Store(queries.terms, shared.tiles[warp]);
    const uint32_t first_row_index = tile_index * kBatchTileRows;
#pragma unroll
    for (int block = 0; block < Shape::kRowBlocks; ++block) {
      const MyRows mine(bounds, absent,
                        static_cast<uint32_t>(first_row % kBatchTileRows + block * kMmaRows));
      if constexpr (kAll) {
        KeepAll<Shape::kWarpQueries, kChoose>(args, sums[block], mine, first_row_index, queries,
                                              int64_t{tile} * kBatchTileRows);
      } else {
        KeepSome<Shape::kWarpQueries, kChoose>(sums[block], mine, first_row_index, queries, list);
      }
    }
  }
  if constexpr (!kAll) list.Flush();
}

using MmaPointer = void (*)(BatchArgs, BatchStage, MmaShape);

struct MmaVariant {
  int queries = 0;
  int stages = 0;  // 0: the device has no room for the ring
  int blocks_per_sm = 0;
  int64_t shared_bytes = 0;  // dynamic
  MmaPointer all = nullptr;
  MmaPointer some = nullptr;
};

// Prefers kBlocksPerSm blocks on an SM with at least two stages each, then fewer blocks.
template <int kQueries, bool kChoose>
MmaVariant VariantOf(const BatchDevice& device) {
  constexpr int64_t kReserved = 1024;  // by CUDA in each block
  constexpr int64_t kStatic =
      int64_t{sizeof(MmaShared<kQueries, kChoose>)} + 1024;  // and the alignment
  constexpr int64_t kStage = StageLayout<kQueries>::kBytes;
  MmaVariant variant = {.queries = kQueries,
                        .all = BatchScanMmaKernel<kQueries, true, kChoose>,
                        .some = BatchScanMmaKernel<kQueries, false, kChoose>};
  for (int blocks = WarpShape<kQueries>::kBlocksPerSm; blocks >= 1; --blocks) {
    const int64_t room = std::min(device.shared_bytes_per_sm / blocks - kReserved,
                                  device.shared_bytes_per_block_max) -
                         kStatic;
    if (room < 2 * kStage) continue;
    variant.stages = static_cast<int>(std::min<int64_t>(room / kStage, kStagesMax));
    variant.blocks_per_sm = blocks;
    variant.shared_bytes = variant.stages * kStage + 1024;
    return variant;
  }
  return variant;
}

// Returns the narrowest block that takes all queries, or else the widest that fits.
template <bool kChoose>
MmaVariant SelectVariant(const BatchDevice& device, int queries) {
  MmaVariant selected = VariantOf<16, kChoose>(device);
  for (const MmaVariant& variant : {VariantOf<32, kChoose>(device), VariantOf<64, kChoose>(device),
                                    VariantOf<128, kChoose>(device)}) {
    if (variant.stages > 0 && selected.queries < queries) selected = variant;
  }
  return selected;
}

}  // namespace

int BatchQueriesAtOnceMma(const BatchDevice& device, int queries) {
  return SelectVariant<false>(device, queries).queries;
}

cudaError_t PrepareBatchScanMma(const BatchDevice& device) {
  for (const int queries : {16, 32, 64, 128}) {
    for (const MmaVariant& variant :
         {SelectVariant<false>(device, queries), SelectVariant<true>(device, queries)}) {
      if (variant.stages == 0) return cudaErrorInvalidConfiguration;
      for (const MmaPointer kernel : {variant.all, variant.some}) {
        const cudaError_t error = cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel),
                                                       cudaFuncAttributeMaxDynamicSharedMemorySize,
                                                       static_cast<int>(variant.shared_bytes));
        if (error != cudaSuccess) return error;
      }
    }
  }
  return cudaSuccess;
}

cudaError_t LaunchBatchScanMma(const BatchArgs& args, const BatchStage& stage,
                               const BatchDevice& device, cudaStream_t stream) {
  const MmaVariant variant = args.ChoosesRows() ? SelectVariant<true>(device, args.queries)
                                                : SelectVariant<false>(device, args.queries);
  MmaShape shape = {(args.queries + variant.queries - 1) / variant.queries, variant.stages};
  const int blocks = device.sm_count * variant.blocks_per_sm;
  const int lanes = std::max(blocks / shape.query_tiles, 1);
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(static_cast<unsigned>(lanes * shape.query_tiles));
  config.blockDim = dim3(kThreads);
  config.dynamicSmemBytes = static_cast<size_t>(variant.shared_bytes);
  config.stream = stream;
  BatchStage copy = stage;
  void* parameters[] = {const_cast<BatchArgs*>(&args), &copy, &shape};
  return cudaLaunchKernelExC(
      &config, reinterpret_cast<const void*>(stage.done_step == 0 ? variant.all : variant.some),
      parameters);
}

}  // namespace nearfield::gpu
