// Copies rows to shared memory for the scan "rs" (queries in registers, rows in shared memory):
// whole tiles of 64 rows, through one ring per block.
#pragma once

#include <algorithm>
#include <cstdint>

#include "engine/gpu/kernels/batch/batch_keep_rs.cuh"
#include "engine/gpu/kernels/batch/batch_ring.cuh"

namespace nearfield::gpu {

inline constexpr int kRsStagesMax = 8;
inline constexpr int kRsWarps = kRsThreads / kWarp;

// The cluster of this block: blocks of adjacent index that can access each other's shared memory.
// One bulk copy can write to all of them.
struct Cluster {
  uint32_t rank;  // of this block
  uint32_t blocks;

  __device__ Cluster() {
    asm("mov.u32 %0, %%cluster_ctarank;\n" : "=r"(rank));
    asm("mov.u32 %0, %%cluster_nctarank;\n" : "=r"(blocks));
  }
  __device__ __forceinline__ uint16_t mask() const {
    return static_cast<uint16_t>((1u << blocks) - 1);
  }
};
// Waits for all threads of the cluster that still run. Shared memory written before is visible.
__device__ __forceinline__ void SyncCluster() {
  asm volatile(
      "barrier.cluster.arrive.release.aligned;\n"
      "barrier.cluster.wait.acquire.aligned;\n" ::
          : "memory");
}
// Arrives at the barrier at the same place in the shared memory of block `rank` of the cluster. Its
// scope is the block: a release for the cluster takes half a microsecond, and hands over writes,
// of which there are none.
__device__ __forceinline__ void ArriveAt(uint64_t* arrival, uint32_t rank) {
  asm volatile(
      "{ .reg .b32 remote;\n"
      "mapa.shared::cluster.u32 remote, %0, %1;\n"
      "mbarrier.arrive.shared::cluster.b64 _, [remote]; }\n" ::"r"(SharedAddress(arrival)),
      "r"(rank)
      : "memory");
}
// Copies bytes to the same place of all blocks in `mask`, and reports them to the barrier of each.
__device__ __forceinline__ void CopyBulkToAll(uint32_t to, const char* from, int bytes,
                                              uint64_t* arrival, uint16_t mask) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster "
      "[%0], [%1], %2, [%3], %4;\n" ::"r"(to),
      "l"(from), "r"(bytes), "r"(SharedAddress(arrival)), "h"(mask)
      : "memory");
}

// Properties of a tile that the sender computes.
struct SentTile {
  uint64_t absent;  // TileLocation::Absent
  uint32_t first_row_index;
};

struct RsShared {
  uint64_t filled[kRsStagesMax];   // barrier: the rows and bounds have arrived
  uint64_t emptied[kRsStagesMax];  // barrier: each warp of the cluster has multiplied with them
  SentTile tiles[kRsStagesMax + 1];
  SharedQueries<kRsQueries> queries;
  SurvivorRing survivors[kRsWarps];
};

inline constexpr int64_t kRsSharedBytesMax = kSharedBytesMax - int64_t{sizeof(RsShared)};

// Layout of the ring: the rows of tiles, then the bounds of tiles. Bounds and SentTile are read
// after the products, when the rows' stage of the same tile may already be refilled, so they have
// one stage more. Their stage is refilled by the tile `stages` + 1 later. By then each warp has
// multiplied with the next tile, so it no longer reads these bounds.
struct RsRingShape {
  int stages = 0;
  int rows_bytes = 0;  // of a tile

  RsRingShape() = default;
  explicit RsRingShape(int32_t code_stride) : rows_bytes(kBatchTileRows * code_stride) {
    stages = static_cast<int>(std::min<int64_t>(
        kRsStagesMax,
        (kRsSharedBytesMax - 1024 - kTileBoundsBytes) / (rows_bytes + kTileBoundsBytes)));
  }

  NEARFIELD_HOST_DEVICE int bound_stages() const { return stages + 1; }
  NEARFIELD_HOST_DEVICE int BoundsAt(int stage) const {
    return stages * rows_bytes + stage * kTileBoundsBytes;
  }
  // Includes the bytes that align its start to a multiple of 1,024.
  NEARFIELD_HOST_DEVICE int bytes() const { return BoundsAt(bound_stages()) + 1024; }
};

// Position of the next tile in the ring.
struct RingPosition {
  int stage = 0;
  uint32_t parity = 0;  // of the ring's current round
  int bounds_stage = 0;

  __device__ __forceinline__ void Next(const RsRingShape& shape) {
    if (++stage == shape.stages) {
      stage = 0;
      parity ^= 1;
    }
    if (++bounds_stage == shape.bound_stages()) bounds_stage = 0;
  }
};

// Sends this block's part of each tile to the rings of all blocks of its cluster, from one lane.
class TileSender {
 public:
  __device__ TileSender(const BatchArgs& args, const BatchStage& stage, const RsRingShape& shape,
                        const unsigned char* ring)
      : args_(args),
        stage_(stage),
        shape_(shape),
        ring_(SharedAddress(ring)),
        rows_(kBatchTileRows / cluster_.blocks),
        first_row_(cluster_.rank * rows_) {}

  // A tile to send. Its addresses and its absent rows come from memory, which takes longer than to
  // send it, so it is found while its stage in the ring is still in use.
  struct Found {
    TileLocation location;
    TileLocation::Group first;
    SentTile sent;
  };
  __device__ __forceinline__ Found Find(uint32_t tile) const {
    const uint32_t tile_index = TileAt(stage_, tile);
    const TileLocation location(args_.corpus, tile_index);
    return {location, location.GroupOf(0), {location.Absent(), tile_index * kBatchTileRows}};
  }

  // Sends a tile. Requires: no warp of the cluster reads its stage in the ring any more.
  __device__ __forceinline__ void Send(const Found& found, const RingPosition& at,
                                       RsShared& shared) const {
    shared.tiles[at.bounds_stage] = found.sent;
    uint64_t* const filled = &shared.filled[at.stage];
    ExpectBytes(filled, shape_.rows_bytes + kTileBoundsBytes);
    const uint32_t to = ring_ + static_cast<uint32_t>(at.stage * shape_.rows_bytes);
    const uint32_t bounds_to = ring_ + static_cast<uint32_t>(shape_.BoundsAt(at.bounds_stage));
    const TileLocation& location = found.location;
    const CodedGeneration& generation = *location.generation;
    if (location.in_slab + kBatchTileRows <= generation.codes.rows_per_slab &&
        location.slot + kBatchTileRows <= generation.rows_count) {
      SendRows(found.first, 0, first_row_, rows_, to, bounds_to, filled);
      return;
    }
    // A tile that spans two slabs or the end of the rows. The last group is repeated in place of
    // groups that do not exist.
#pragma unroll 1
    for (uint32_t row = first_row_; row < first_row_ + rows_; row += kSwizzleAtomRows) {
      SendRows(location.GroupOf(row), row, 0, kSwizzleAtomRows, to, bounds_to, filled);
    }
  }

 private:
  // Sends `rows` rows, a multiple of eight, that are contiguous in a slab, beginning at row
  // `skipped` of `group`, which has the place of row `row` in the tile.
  __device__ __forceinline__ void SendRows(const TileLocation::Group& group, uint32_t row,
                                           uint32_t skipped, uint32_t rows, uint32_t to,
                                           uint32_t bounds_to, uint64_t* filled) const {
    const auto row_bytes = static_cast<uint32_t>(shape_.rows_bytes) / kBatchTileRows;
    CopyBulkToAll(to + (row + skipped) * row_bytes, group.slices + skipped * row_bytes,
                  static_cast<int>(rows * row_bytes), filled, cluster_.mask());
    CopyBulkToAll(bounds_to + (row + skipped) * kBoundBytes, group.bounds + skipped * kBoundBytes,
                  static_cast<int>(rows * kBoundBytes), filled, cluster_.mask());
  }

  const BatchArgs& args_;
  const BatchStage& stage_;
  const RsRingShape& shape_;
  const Cluster cluster_;
  const uint32_t ring_;
  const uint32_t rows_;       // of a tile, sent by this block
  const uint32_t first_row_;  // of these
};

// Sends all tiles, by one whole warp. Waits before each until all warps of the cluster are done
// with its stage.
__device__ inline void SendTiles(const BatchArgs& args, const BatchStage& stage,
                                 const RsRingShape& shape, const unsigned char* ring,
                                 RsShared& shared, uint32_t first_tile, uint32_t tiles_step) {
  if (!IsElected()) return;
  const TileSender sender(args, stage, shape, ring);
  RingPosition at;
  int free_stages = shape.stages;  // stages not yet used
  for (uint32_t tile = first_tile; tile < stage.tiles; tile += tiles_step) {
    const TileSender::Found found = sender.Find(tile);
    if (free_stages > 0) {
      --free_stages;
    } else {
      AwaitArrival(&shared.emptied[at.stage], at.parity ^ 1);
    }
    sender.Send(found, at, shared);
    at.Next(shape);
  }
}

}  // namespace nearfield::gpu
