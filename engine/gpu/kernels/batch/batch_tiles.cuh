// Where the codes of a batch scan lie: the tiles of a stage, the groups of eight rows of a tile,
// and the order of a code's bytes.
#pragma once

#include <cstdint>

#include "engine/gpu/kernels/batch/batch.h"
#include "engine/gpu/kernels/primitives/device_views.h"

namespace nearfield::gpu {

// One slice of the 64 rows of a tile, and the bounds of these rows.
inline constexpr int kTileSliceBytes = kBatchTileRows * kSliceBytes;
inline constexpr int kBoundBytes = static_cast<int>(sizeof(bound::RowBound));
inline constexpr int kTileBoundsBytes = kBatchTileRows * kBoundBytes;

// Operands are stored in slices of 128 bytes, one per row or query. Eight contiguous slices form a
// 1,024-byte swizzle atom: 16-byte chunks are permuted so that the same chunk of eight slices falls
// into different banks.
__device__ __forceinline__ uint32_t ChunkOffset(int slice, int chunk) {
  return static_cast<uint32_t>(slice * kSliceBytes + ((chunk ^ (slice & 7)) << 4));
}

__device__ __forceinline__ uint32_t SharedAddress(const void* pointer) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
}

// Returns the first address in shared memory, `bytes` or later, where slices may begin.
__device__ __forceinline__ unsigned char* AlignedTo1024(unsigned char* bytes) {
  return bytes + (0u - SharedAddress(bytes)) % 1024u;
}

// Returns the index, over all tiles, of the stage's tile `index`.
__device__ __forceinline__ uint32_t TileAt(const BatchStage& stage, uint32_t index) {
  if (stage.done_step == 0) return index * stage.step;
  const uint32_t ratio = stage.done_step / stage.step;
  return stage.step * (index / (ratio - 1) * ratio + 1 + index % (ratio - 1));
}

// The generation of a tile. The row indices of a generation begin at a whole tile.
struct TilePlace {
  const CodedGeneration* generation;
  uint32_t slot;  // of the first row

  __device__ TilePlace(const CodedCorpus& corpus, uint32_t tile) {
    const uint32_t row_index = tile * kBatchTileRows;
    generation = &corpus.Of(row_index);
    slot = row_index - generation->rows_begin;
  }

  // Returns the slot of a row of the tile; of the last row if `index` is beyond it.
  __device__ uint32_t SlotOf(uint32_t index) const {
    return slot + min(index, generation->rows_count - 1 - slot);
  }
  // Returns one bit per row of the tile, set if the row does not exist or is deleted.
  __device__ uint64_t Absent() const {
    const uint32_t rows = generation->rows_count - slot;
    const uint64_t beyond = rows < kBatchTileRows ? ~uint64_t{0} << rows : 0;
    return beyond | generation->tombstones.word(slot / kBatchTileRows);
  }
};

// Location of a tile's codes.
struct TileLocation : TilePlace {
  uint32_t slab;     // of the first row
  uint32_t in_slab;  // index of the first row in its slab

  __device__ TileLocation(const CodedCorpus& corpus, uint32_t tile) : TilePlace(corpus, tile) {
    slab = slot / generation->codes.rows_per_slab;
    in_slab = slot - slab * generation->codes.rows_per_slab;
  }

  // The slab of a row and the row's index there. Row() uses the last row if `index` is beyond it.
  struct RowLocation {
    char* slab;
    uint32_t row;
  };
  __device__ RowLocation Row(uint32_t index) const {
    const CodesView& codes = generation->codes;
    uint32_t row = in_slab + SlotOf(index) - slot;
    uint32_t of = slab;
    for (; row >= codes.rows_per_slab; row -= codes.rows_per_slab) ++of;
    return {codes.slabs[of], row};
  }
  // The group of eight rows that contains row `index`: its first slice and its bounds.
  struct Group {
    const char* slices = nullptr;
    const char* bounds = nullptr;
  };
  __device__ Group GroupOf(uint32_t index) const {
    const CodesView& codes = generation->codes;
    const RowLocation row = Row(index);
    const uint32_t first = row.row / kSwizzleAtomRows * kSwizzleAtomRows;
    return {row.slab + static_cast<int64_t>(first) * codes.code_bytes,
            row.slab + static_cast<int64_t>(codes.rows_per_slab) * codes.code_bytes +
                first * kBoundBytes};
  }
};

}  // namespace nearfield::gpu
