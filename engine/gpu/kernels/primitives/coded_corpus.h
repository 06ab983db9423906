// CodedCorpus: the generations of a search as its kernels see them. Rows are numbered over all
// generations; each generation has one range of numbers.
#ifndef NEARFIELD_ENGINE_GPU_KERNELS_PRIMITIVES_CODED_CORPUS_H_
#define NEARFIELD_ENGINE_GPU_KERNELS_PRIMITIVES_CODED_CORPUS_H_

#include <cstdint>

#include "engine/gpu/kernels/primitives/device_views.h"
#include "engine/score/host_device.h"

namespace nearfield::gpu {

inline constexpr int kCodedGenerationsMax = 16;
// The row numbers of a generation begin at a multiple of this.
inline constexpr uint32_t kRowNumberAlign = 64;

// Row `slot` has the number rows_begin + slot.
struct CodedGeneration {
  RowsView rows;
  CodesView codes;
  TombstoneView tombstones;
  uint32_t rows_begin = 0;
  uint32_t rows_count = 0;
};

struct CodedCorpus {
  CodedGeneration generations[kCodedGenerationsMax];
  int32_t count = 0;
  uint32_t numbers = 0;  // including numbers without a row; a multiple of kRowNumberAlign

  // Returns the index of the generation that `number` belongs to.
  NEARFIELD_HOST_DEVICE int IndexOf(uint32_t number) const {
    int g = 0;
    while (g + 1 < count && number >= generations[g + 1].rows_begin) ++g;
    return g;
  }
  NEARFIELD_HOST_DEVICE const CodedGeneration& Of(uint32_t number) const {
    return generations[IndexOf(number)];
  }
};

}  // namespace nearfield::gpu

#endif  // NEARFIELD_ENGINE_GPU_KERNELS_PRIMITIVES_CODED_CORPUS_H_
