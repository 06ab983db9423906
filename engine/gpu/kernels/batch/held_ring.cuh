// Copies rows to shared memory for the scan that holds its queries in registers: whole tiles of 64
// rows, through one ring per block.
#ifndef NEARFIELD_ENGINE_GPU_KERNELS_BATCH_HELD_RING_CUH_
#define NEARFIELD_ENGINE_GPU_KERNELS_BATCH_HELD_RING_CUH_

#include <algorithm>
#include <cstdint>

#include "engine/gpu/kernels/batch/batch_ring.cuh"
#include "engine/gpu/kernels/batch/held_keep.cuh"

namespace nearfield::gpu {

inline constexpr int kHeldPlacesMax = 8;
inline constexpr int kHeldWarps = kHeldThreads / kWarp;

// Properties of a tile that the sender computes.
struct SentTile {
  uint64_t absent;  // TilePlace::Absent
  uint32_t first_number;
};

struct HeldShared {
  uint64_t filled[kHeldPlacesMax];   // barrier: the rows and bounds have arrived
  uint64_t emptied[kHeldPlacesMax];  // barrier: each warp has multiplied with the rows
  SentTile tiles[kHeldPlacesMax + 1];
  HeldQueryTerms queries;
  SurvivorRing survivors[kHeldWarps];
};

inline constexpr int64_t kHeldSharedBytesMax = kSharedBytesMax - int64_t{sizeof(HeldShared)};

// Layout of the ring: the rows of tiles, then the bounds of tiles. Bounds and SentTile are read
// after the products, when the rows' place of the same tile may already be refilled, so they have
// one place more. Their place is refilled by the tile `places` + 1 later. That tile is sent after
// each warp has multiplied with the rows of the next tile, and therefore is done with these bounds.
struct HeldRingShape {
  int places = 0;
  int rows_bytes = 0;  // of a tile

  HeldRingShape() = default;
  explicit HeldRingShape(int32_t code_stride) : rows_bytes(kBatchTileRows * code_stride) {
    places = static_cast<int>(std::min<int64_t>(
        kHeldPlacesMax,
        (kHeldSharedBytesMax - 1024 - kTileBoundsBytes) / (rows_bytes + kTileBoundsBytes)));
  }

  NEARFIELD_HOST_DEVICE int bound_places() const { return places + 1; }
  NEARFIELD_HOST_DEVICE int BoundsAt(int place) const {
    return places * rows_bytes + place * kTileBoundsBytes;
  }
  // Includes the bytes that align its start to a multiple of 1,024.
  NEARFIELD_HOST_DEVICE int bytes() const { return BoundsAt(bound_places()) + 1024; }
};

// Position of the next tile in the ring.
struct RingPlace {
  int place = 0;
  uint32_t parity = 0;  // of the ring's current round
  int bounds_place = 0;

  __device__ __forceinline__ void Next(const HeldRingShape& shape) {
    if (++place == shape.places) {
      place = 0;
      parity ^= 1;
    }
    if (++bounds_place == shape.bound_places()) bounds_place = 0;
  }
};

// Sends tiles to the ring, from one lane.
class TileSender {
 public:
  __device__ TileSender(const BatchArgs& args, const BatchStage& stage, const HeldRingShape& shape,
                        const unsigned char* ring)
      : args_(args), stage_(stage), shape_(shape), ring_(SharedAddress(ring)) {}

  // Sends a tile. Requires: no warp reads its place in the ring any more.
  __device__ __forceinline__ void Send(uint32_t tile, const RingPlace& at,
                                       HeldShared& shared) const {
    const uint32_t number = TileAt(stage_, tile);
    const TilePlace place(args_.corpus, number);
    shared.tiles[at.bounds_place] = {place.Absent(), number * kBatchTileRows};
    uint64_t* const filled = &shared.filled[at.place];
    ExpectBytes(filled, shape_.rows_bytes + kTileBoundsBytes);
    const uint32_t to = ring_ + static_cast<uint32_t>(at.place * shape_.rows_bytes);
    const uint32_t bounds_to = ring_ + static_cast<uint32_t>(shape_.BoundsAt(at.bounds_place));
    const CodedGeneration& generation = *place.generation;
    if (place.in_slab + kBatchTileRows <= generation.codes.rows_per_slab &&
        place.slot + kBatchTileRows <= generation.rows_count) {
      const TilePlace::Group first = place.GroupOf(0);
      CopyBulk(to, first.lines, shape_.rows_bytes, filled);
      CopyBulk(bounds_to, first.bounds, kTileBoundsBytes, filled);
    } else {
      SendGroups(place, to, bounds_to, filled);
    }
  }

 private:
  // Sends the groups of a tile that spans two slabs or the end of the rows. The last group is
  // repeated in place of groups that do not exist.
  __device__ void SendGroups(const TilePlace& place, uint32_t to, uint32_t bounds_to,
                             uint64_t* filled) const {
    constexpr uint32_t kGroupBounds = kCodeGroupRows * kBoundBytes;
    const int group_bytes = shape_.rows_bytes / (kProductRows / static_cast<int>(kCodeGroupRows));
#pragma unroll 1
    for (uint32_t group = 0; group < kProductRows / kCodeGroupRows; ++group) {
      const TilePlace::Group of = place.GroupOf(group * kCodeGroupRows);
      CopyBulk(to + group * static_cast<uint32_t>(group_bytes), of.lines, group_bytes, filled);
      CopyBulk(bounds_to + group * kGroupBounds, of.bounds, kGroupBounds, filled);
    }
  }

  const BatchArgs& args_;
  const BatchStage& stage_;
  const HeldRingShape& shape_;
  const uint32_t ring_;
};

// Sends all tiles, by one whole warp. Waits before each until all warps are done with its place.
__device__ inline void SendTiles(const BatchArgs& args, const BatchStage& stage,
                                 const HeldRingShape& shape, const unsigned char* ring,
                                 HeldShared& shared, uint32_t first_tile, uint32_t tiles_step) {
  if (!IsElected()) return;
  const TileSender sender(args, stage, shape, ring);
  RingPlace at;
  int free_places = shape.places;  // places not yet used
  for (uint32_t tile = first_tile; tile < stage.tiles; tile += tiles_step) {
    if (free_places > 0) {
      --free_places;
    } else {
      AwaitArrival(&shared.emptied[at.place], at.parity ^ 1);
    }
    sender.Send(tile, at, shared);
    at.Next(shape);
  }
}

}  // namespace nearfield::gpu

#endif  // NEARFIELD_ENGINE_GPU_KERNELS_BATCH_HELD_RING_CUH_
