// The generations of a search as its kernels see them: rows have numbers, one range a generation.
#ifndef NEARFIELD_ENGINE_GPU_KERNELS_CERTIFIED_CODED_CORPUS_H_
#define NEARFIELD_ENGINE_GPU_KERNELS_CERTIFIED_CODED_CORPUS_H_

#include <cstdint>

#include "engine/gpu/kernels/common/device_views.h"
#include "engine/score/host_device.h"

namespace nearfield::gpu {

inline constexpr int kCodedGenerationsMax = 16;
// Row numbers of a generation begin at multiples of this.
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
  uint32_t numbers = 0;  // those of no row included; a multiple of kRowNumberAlign

  // The generation whose range a number is in.
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

#endif  // NEARFIELD_ENGINE_GPU_KERNELS_CERTIFIED_CODED_CORPUS_H_
