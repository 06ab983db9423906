// Copies rows for a batch scan to shared memory: tiles of 64 rows, one slice at a time, through one
// ring per warpgroup.
#pragma once

#include <cstdint>

#include "engine/gpu/kernels/batch/batch.h"
#include "engine/gpu/kernels/batch/batch_tiles.cuh"
#include "engine/gpu/kernels/batch/warpgroup_products.cuh"

namespace nearfield::gpu {

// Dynamic and static shared memory per block, without the driver's part.
inline constexpr int64_t kSharedBytesMax = 232448 - 1024;

inline constexpr int kStagesMax = 6;
inline constexpr int kStagesMin = 3;
inline constexpr int kBatchWarpgroupsMax = 3;

// Layout of the rings in shared memory: for each warpgroup its slices, then the bounds of its
// tiles. A tile's bounds arrive with its last slice. If a tile has at least as many slices as the
// ring has stages, the bounds of the previous tile are no longer in use by then, so one stage
// suffices.
struct RingShape {
  int warpgroups = 0;  // per block; 0: the room is too small
  int stages = 0;      // slices
  int bound_stages = 0;

  NEARFIELD_HOST_DEVICE constexpr int bytes() const {
    return stages * kTileSliceBytes + bound_stages * kTileBoundsBytes;
  }
};

// Returns the ring with as many slices as fit in `room` bytes. Prefers three warpgroups, else two:
// while one compares its products, the other two can multiply.
constexpr RingShape ShapeRing(int64_t room, int slices) {
  for (int warpgroups = kBatchWarpgroupsMax; warpgroups >= 2; --warpgroups) {
    for (int stages = kStagesMax; stages >= kStagesMin; --stages) {
      const RingShape ring = {warpgroups, stages, slices >= stages ? 1 : stages};
      if (warpgroups * int64_t{ring.bytes()} <= room) return ring;
    }
  }
  return {};
}

// Operations on an mbarrier in shared memory, which counts arrivals and the bytes of a bulk copy.
__device__ __forceinline__ void InitArrival(uint64_t* arrival, int count) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;\n" ::"r"(SharedAddress(arrival)), "r"(count)
               : "memory");
}
__device__ __forceinline__ void ExpectBytes(uint64_t* arrival, int bytes) {
  asm volatile(
      "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;\n" ::"r"(SharedAddress(arrival)),
      "r"(bytes)
      : "memory");
}
__device__ __forceinline__ void AwaitArrival(uint64_t* arrival, uint32_t parity) {
  asm volatile(
      "{ .reg .pred p;\n"
      "again: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n"
      "@!p bra again; }\n" ::"r"(SharedAddress(arrival)),
      "r"(parity)
      : "memory");
}
// Copies bytes to shared memory and reports them to the barrier.
__device__ __forceinline__ void CopyBulk(uint32_t to, const char* from, int bytes,
                                         uint64_t* arrival) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];\n" ::
          "r"(to),
      "l"(from), "r"(bytes), "r"(SharedAddress(arrival))
      : "memory");
}

// Returns the offset in a ring of the bounds that arrive with the slice in stage `at`.
__device__ __forceinline__ int BoundsOffset(const RingShape& shape, int at) {
  return shape.stages * kTileSliceBytes + (shape.bound_stages > 1 ? at : 0) * kTileBoundsBytes;
}

// Returns true in one lane of a converged warp, always the same lane.
__device__ __forceinline__ bool IsElected() {
  uint32_t elected;
  asm volatile(
      "{ .reg .pred p;\n"
      "elect.sync _|p, 0xffffffff;\n"
      "selp.b32 %0, 1, 0, p; }\n"
      : "=r"(elected));
  return elected != 0;
}

// Sends slices of 64 rows to a warpgroup's ring. Each of its warps sends a part, by an elected
// lane, so that no warp delays the others. Requires: all warps of the group call, converged.
class RowSender {
 public:
  __device__ RowSender(const BatchArgs& args, const BatchStage& stage, const RingShape& shape,
                       uint32_t ring, uint64_t* arrivals, uint32_t first_tile, uint32_t tiles_step)
      : args_(args),
        stage_(stage),
        shape_(shape),
        ring_(ring),
        arrivals_(arrivals),
        part_(static_cast<int>(threadIdx.x) % kWarpgroup / kWarp),
        tile_(first_tile),
        tiles_step_(tiles_step) {
    if (tile_ < stage_.tiles) FindTile();
  }

  // Sends the next slice. Requires: the ring has room for it.
  __device__ __forceinline__ void SendNext(int slices) {
    if (tile_ >= stage_.tiles) return;
    const bool last = slice_ + 1 == slices;
    if (IsElected()) {
      uint64_t* const arrival = arrivals_ + at_;
      if (part_ == 0) ExpectBytes(arrival, kTileSliceBytes + (last ? kTileBoundsBytes : 0));
      const uint32_t to = ring_ + static_cast<uint32_t>(at_ * kTileSliceBytes);
      const uint32_t bounds_to = ring_ + static_cast<uint32_t>(BoundsOffset(shape_, at_));
      if (together_) {
        SendTogether(to, bounds_to, last, arrival);
      } else {
        SendGroups(to, bounds_to, last, arrival);
      }
    }
    __syncwarp();
    at_ = at_ + 1 == shape_.stages ? 0 : at_ + 1;
    if (++slice_ < slices) return;
    slice_ = 0;
    tile_ += tiles_step_;
    // Long before the tile's first slice is sent, because the slab addresses come from memory.
    if (tile_ < stage_.tiles) FindTile();
  }

 private:
  static constexpr int kParts = kWarpgroup / kWarp;
  static constexpr int kGroupsOfPart = kProductRows / static_cast<int>(kSwizzleAtomRows) / kParts;

  __device__ __forceinline__ void FindTile() {
    const TileLocation location(args_.corpus, TileAt(stage_, tile_));
    const CodedGeneration& generation = *location.generation;
    together_ = location.in_slab + kBatchTileRows <= generation.codes.rows_per_slab &&
                location.slot + kBatchTileRows <= generation.rows_count;
    const TileLocation::Group first = location.GroupOf(0);
    group_bytes_ = static_cast<int>(kSwizzleAtomRows) * generation.codes.code_bytes;
    from_ = first.slices + part_ * kGroupsOfPart * group_bytes_;
    bounds_ = static_cast<int>(first.bounds - from_);
  }

  // Sends groups of eight rows that are contiguous in a slab.
  __device__ __forceinline__ void SendTogether(uint32_t to, uint32_t bounds_to, bool last,
                                               uint64_t* arrival) const {
    const char* from = from_ + slice_ * kSwizzleAtomBytes;
    to += static_cast<uint32_t>(part_ * kGroupsOfPart * kSwizzleAtomBytes);
#pragma unroll
    for (int group = 0; group < kGroupsOfPart; ++group) {
      CopyBulk(to + static_cast<uint32_t>(group * kSwizzleAtomBytes), from, kSwizzleAtomBytes,
               arrival);
      from += group_bytes_;
    }
    if (last && part_ == kParts - 1) {
      CopyBulk(bounds_to, from_ + bounds_, kTileBoundsBytes, arrival);
    }
  }

  // Sends the groups of a tile that spans two slabs or the end of the rows. The last group is
  // repeated in place of groups that do not exist.
  __device__ void SendGroups(uint32_t to, uint32_t bounds_to, bool last, uint64_t* arrival) const {
    constexpr int kGroupBounds = static_cast<int>(kSwizzleAtomRows) * kBoundBytes;
    const TileLocation location(args_.corpus, TileAt(stage_, tile_));
#pragma unroll 1
    for (int group = part_ * kGroupsOfPart; group < (part_ + 1) * kGroupsOfPart; ++group) {
      const TileLocation::Group of =
          location.GroupOf(static_cast<uint32_t>(group) * kSwizzleAtomRows);
      CopyBulk(to + static_cast<uint32_t>(group * kSwizzleAtomBytes),
               of.slices + slice_ * kSwizzleAtomBytes, kSwizzleAtomBytes, arrival);
      if (last) {
        CopyBulk(bounds_to + static_cast<uint32_t>(group * kGroupBounds), of.bounds, kGroupBounds,
                 arrival);
      }
    }
  }

  const BatchArgs& args_;
  const BatchStage& stage_;
  const RingShape& shape_;
  const uint32_t ring_;
  uint64_t* const arrivals_;
  const int part_;  // index of the warp in its group
  uint32_t tile_;
  const uint32_t tiles_step_;
  int slice_ = 0;
  int at_ = 0;
  // The tile that is being sent.
  const char* from_ = nullptr;  // the first group that this warp sends
  int bounds_ = 0;              // offset of the bounds from from_
  int group_bytes_ = 0;
  bool together_ = false;
};

}  // namespace nearfield::gpu
