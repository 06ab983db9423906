// CodedCorpus: the generations of a search as its kernels see them. A row has a
// global row index over all generations; each generation has one range of them.
#pragma once

#include <cstdint>

#include "engine/gpu/kernels/primitives/device_views.h"
#include "engine/score/host_device.h"

namespace nearfield::gpu {

inline constexpr int kCodedGenerationsMax = 16;
// The row indices of a generation begin at a multiple of this.
inline constexpr uint32_t kRowIndexAlign = 64;

// Row `slot` has the global row index rows_begin + slot.
struct CodedGeneration {
  RowsView rows;
  CodesView codes;
  TombstoneView tombstones;
  uint32_t rows_begin = 0xffffffffu;  // after all rows, if there is no such generation
  uint32_t rows_count = 0;
};

struct CodedCorpus {
  CodedGeneration generations[kCodedGenerationsMax];
  int32_t count = 0;
  uint32_t row_index_end = 0;  // also counts indices without a row; a multiple of kRowIndexAlign

  // Returns the index of the generation that contains this global row index.
  NEARFIELD_HOST_DEVICE int GenerationIndex(uint32_t row_index) const {
    // No branch: the comparisons do not wait for each other.
    int g = 0;
    for (int i = 1; i < kCodedGenerationsMax; ++i) {
      g += row_index >= generations[i].rows_begin ? 1 : 0;
    }
    return g;
  }
  NEARFIELD_HOST_DEVICE const CodedGeneration& Of(uint32_t row_index) const {
    return generations[GenerationIndex(row_index)];
  }
};

}  // namespace nearfield::gpu
