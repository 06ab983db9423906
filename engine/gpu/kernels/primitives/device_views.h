// Views through which kernels find the planes of a generation in the slabs of the arena. Plain
// data, passed by value; host and device.
//
// The first meta slab begins with two pointer tables. Norms (fp64 S(x,x)), ids by rank (uint64, if
// they are numbers) and ranks (uint32) follow as one linear range of bytes over the meta slabs.
// Rows have slabs of their own, `rows_per_slab` rows each.
#pragma once

#include <cstdint>

#include "engine/bound/certified_bound.h"
#include "engine/gpu/kernels/primitives/row_layout.h"
#include "engine/score/host_device.h"

namespace nearfield::gpu {

// A linear range of bytes, cut into slabs of 2^slab_shift bytes. Elements are aligned, so none
// straddles two slabs.
struct ExtentView {
  char* const* slabs = nullptr;  // table in device memory
  int32_t slab_shift = 0;

  template <typename T>
  NEARFIELD_HOST_DEVICE T* at(int64_t byte_offset) const {
    char* slab = slabs[byte_offset >> slab_shift];
    return reinterpret_cast<T*>(slab + (byte_offset & ((int64_t{1} << slab_shift) - 1)));
  }
};

struct RowsView {
  char* const* row_slabs = nullptr;  // table in device memory
  uint32_t rows_per_slab = 0;        // a multiple of kRowsAlign
  int64_t row_bytes = 0;             // stride: padded elements
  RowShape shape;
  ExtentView meta;
  int64_t norms_offset = 0;  // bytes into meta; [rows] fp64
  // Valid once sealed:
  int64_t ids_offset = 0;    // bytes into meta; [rows] uint64, by rank; 0: there are none
  int64_t ranks_offset = 0;  // bytes into meta; [rows] uint32

  NEARFIELD_HOST_DEVICE char* row(uint32_t index) const {
    const uint32_t slab = index / rows_per_slab;
    return row_slabs[slab] + static_cast<int64_t>(index - slab * rows_per_slab) * row_bytes;
  }
  NEARFIELD_HOST_DEVICE double* norm(uint32_t index) const {
    return meta.at<double>(norms_offset + static_cast<int64_t>(index) * 8);
  }
  NEARFIELD_HOST_DEVICE uint32_t* rank(uint32_t index) const {
    return meta.at<uint32_t>(ranks_offset + static_cast<int64_t>(index) * 4);
  }
};

// Codes are stored in the swizzled layout that the tensor cores read. A code is cut into slices of
// 128 bytes. The same slice of eight neighboring rows is one swizzle atom; in it, the 16-byte
// chunks of each row are permuted, so that the same chunk of eight rows falls into different banks
// of shared memory. Bytes of a group of eight rows:
//   [slice][row % 8][chunk ^ row % 8][16].
inline constexpr int kSliceBytes = 128;
inline constexpr int kSliceChunks = kSliceBytes / 16;
inline constexpr uint32_t kSwizzleAtomRows = 8;
inline constexpr int kSwizzleAtomBytes = kSliceBytes * static_cast<int>(kSwizzleAtomRows);

NEARFIELD_HOST_DEVICE constexpr int32_t CodeBytesOf(int32_t dim) {
  return (dim + kSliceBytes - 1) / kSliceBytes * kSliceBytes;
}

// Codes and their bounds, in slabs of their own: the codes of a slab's rows, followed by the bounds
// of these rows.
struct CodesView {
  char* const* slabs = nullptr;  // table in device memory
  // The same for the second codes of the rows, and the bounds of both codes; null: there are none.
  char* const* second_slabs = nullptr;
  uint32_t rows_per_slab = 0;  // a multiple of kSwizzleAtomRows
  int32_t code_bytes = 0;      // of a row: whole slices, zero after the dimension

  NEARFIELD_HOST_DEVICE bool has_second() const { return second_slabs != nullptr; }
  NEARFIELD_HOST_DEVICE CodesView second() const {
    CodesView view = *this;
    view.slabs = second_slabs;
    view.second_slabs = nullptr;
    return view;
  }

  // Returns the address, in a slab, of a chunk of the first slice of a row. The same chunk of the
  // next slice is kSwizzleAtomRows slices further.
  NEARFIELD_HOST_DEVICE char* chunk_in(char* slab, uint32_t row_in_slab, int chunk) const {
    const uint32_t in_group = row_in_slab % kSwizzleAtomRows;
    return slab + static_cast<int64_t>(row_in_slab - in_group) * code_bytes +
           in_group * kSliceBytes + ((static_cast<uint32_t>(chunk) ^ in_group) * 16);
  }
  NEARFIELD_HOST_DEVICE char* chunk(uint32_t index, int chunk) const {
    const uint32_t slab = index / rows_per_slab;
    return chunk_in(slabs[slab], index - slab * rows_per_slab, chunk % kSliceChunks) +
           chunk / kSliceChunks * kSwizzleAtomBytes;
  }
  NEARFIELD_HOST_DEVICE bound::RowBound* bound(uint32_t index) const {
    const uint32_t slab = index / rows_per_slab;
    return reinterpret_cast<bound::RowBound*>(slabs[slab] +
                                              static_cast<int64_t>(rows_per_slab) * code_bytes) +
           (index - slab * rows_per_slab);
  }
};

// Slabs hold a multiple of this number of rows: rows that a warp scores together are in one slab.
inline constexpr uint32_t kRowsAlign = 4;

// Deleted rows: bit (row % 64) of word row / 64. The words follow their own slab table. No slabs
// means that no row is deleted.
struct TombstoneView {
  ExtentView bits;
  int64_t words_offset = 0;  // bytes into bits
  int64_t words_count = 0;   // rows after the last word are live

  // Returns the bits of rows 64 * index to 64 * index + 63.
  NEARFIELD_HOST_DEVICE uint64_t word(int64_t index) const {
    if (bits.slabs == nullptr || index >= words_count) return 0;
    return *bits.at<const uint64_t>(words_offset + index * 8);
  }
  NEARFIELD_HOST_DEVICE bool dead(uint32_t index) const {
    return ((word(index / 64) >> (index % 64)) & 1) != 0;
  }
};

// Some slots of a generation, ascending.
struct SlotList {
  ExtentView extent;
  int64_t offset = 0;  // bytes into extent; [count] uint32
  int64_t count = 0;

  NEARFIELD_HOST_DEVICE bool empty() const { return count == 0; }
  NEARFIELD_HOST_DEVICE uint32_t at(uint32_t index) const {
    return *extent.at<const uint32_t>(offset + int64_t{4} * index);
  }
};

}  // namespace nearfield::gpu
