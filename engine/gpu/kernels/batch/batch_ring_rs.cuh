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

// Properties of a tile that the sender computes.
struct SentTile {
  uint64_t absent;  // TileLocation::Absent
  uint32_t first_row_index;
};

struct RsShared {
  uint64_t filled[kRsStagesMax];   // barrier: the rows and bounds have arrived
  uint64_t emptied[kRsStagesMax];  // barrier: each warp has multiplied with the rows
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

// Sends tiles to the ring, from one lane.
class TileSender {
 public:
  __device__ TileSender(const BatchArgs& args, const BatchStage& stage, const RsRingShape& shape,
                        const unsigned char* ring)
      : args_(args), stage_(stage), shape_(shape), ring_(SharedAddress(ring)) {}

  // Sends a tile. Requires: no warp reads its stage in the ring any more.
  __device__ __forceinline__ void Send(uint32_t tile, const RingPosition& at,
                                       RsShared& shared) const {
    const uint32_t tile_index = TileAt(stage_, tile);
    const TileLocation location(args_.corpus, tile_index);
    shared.tiles[at.bounds_stage] = {location.Absent(), tile_index * kBatchTileRows};
    uint64_t* const filled = &shared.filled[at.stage];
    ExpectBytes(filled, shape_.rows_bytes + kTileBoundsBytes);
    const uint32_t to = ring_ + static_cast<uint32_t>(at.stage * shape_.rows_bytes);
    const uint32_t bounds_to = ring_ + static_cast<uint32_t>(shape_.BoundsAt(at.bounds_stage));
    const CodedGeneration& generation = *location.generation;
    if (location.in_slab + kBatchTileRows <= generation.codes.rows_per_slab &&
        location.slot + kBatchTileRows <= generation.rows_count) {
      const TileLocation::Group first = location.GroupOf(0);
      CopyBulk(to, first.slices, shape_.rows_bytes, filled);
      CopyBulk(bounds_to, first.bounds, kTileBoundsBytes, filled);
    } else {
      SendGroups(location, to, bounds_to, filled);
    }
  }

 private:
  // Sends the groups of a tile that spans two slabs or the end of the rows. The last group is
  // repeated in place of groups that do not exist.
  __device__ void SendGroups(const TileLocation& location, uint32_t to, uint32_t bounds_to,
                             uint64_t* filled) const {
    constexpr uint32_t kGroupBounds = kSwizzleAtomRows * kBoundBytes;
    const int group_bytes = shape_.rows_bytes / (kProductRows / static_cast<int>(kSwizzleAtomRows));
#pragma unroll 1
    for (uint32_t group = 0; group < kProductRows / kSwizzleAtomRows; ++group) {
      const TileLocation::Group of = location.GroupOf(group * kSwizzleAtomRows);
      CopyBulk(to + group * static_cast<uint32_t>(group_bytes), of.slices, group_bytes, filled);
      CopyBulk(bounds_to + group * kGroupBounds, of.bounds, kGroupBounds, filled);
    }
  }

  const BatchArgs& args_;
  const BatchStage& stage_;
  const RsRingShape& shape_;
  const uint32_t ring_;
};

// Sends all tiles, by one whole warp. Waits before each until all warps are done with its stage.
__device__ inline void SendTiles(const BatchArgs& args, const BatchStage& stage,
                                 const RsRingShape& shape, const unsigned char* ring,
                                 RsShared& shared, uint32_t first_tile, uint32_t tiles_step) {
  if (!IsElected()) return;
  const TileSender sender(args, stage, shape, ring);
  RingPosition at;
  int free_stages = shape.stages;  // stages not yet used
  for (uint32_t tile = first_tile; tile < stage.tiles; tile += tiles_step) {
    if (free_stages > 0) {
      --free_stages;
    } else {
      AwaitArrival(&shared.emptied[at.stage], at.parity ^ 1);
    }
    sender.Send(tile, at, shared);
    at.Next(shape);
  }
}

}  // namespace nearfield::gpu
