// How kernels find the planes of a generation in the slabs of the arena. Plain data, passed by
// value; host and device.
//
// The first meta slab begins with two pointer tables; norms (fp64 S(x,x)) and ranks (uint32) follow
// as one linear range of bytes over the meta slabs. Rows lie in slabs of their own, `rows_per_slab`
// each.
#ifndef NEARFIELD_ENGINE_GPU_KERNELS_COMMON_DEVICE_VIEWS_H_
#define NEARFIELD_ENGINE_GPU_KERNELS_COMMON_DEVICE_VIEWS_H_

#include <cstdint>

#include "engine/gpu/kernels/common/row_layout.h"
#include "engine/score/host_device.h"

namespace nearfield::gpu {

// A linear range of bytes cut into slabs of 2^slab_shift bytes. Elements are aligned, so none
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
  int64_t ranks_offset = 0;  // bytes into meta; [rows] uint32; valid once sealed

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

// Rows that a warp scores at once lie in one slab: slabs hold a multiple of this.
inline constexpr uint32_t kRowsAlign = 4;

// Deleted rows: bit (row % 64) of word row / 64. The words follow their own slab table. No slabs:
// no row deleted.
struct TombstoneView {
  ExtentView bits;
  int64_t words_offset = 0;  // bytes into bits
  int64_t words_count = 0;   // rows beyond the last word are live

  NEARFIELD_HOST_DEVICE bool dead(uint32_t index) const {
    const int64_t word = index / 64;
    if (bits.slabs == nullptr || word >= words_count) return false;
    return ((*bits.at<const uint64_t>(words_offset + word * 8) >> (index % 64)) & 1) != 0;
  }
};

}  // namespace nearfield::gpu

#endif  // NEARFIELD_ENGINE_GPU_KERNELS_COMMON_DEVICE_VIEWS_H_
