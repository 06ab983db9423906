// Sizes of a row selector, as data.
#ifndef NEARFIELD_ENGINE_TOPK_SELECTOR_SHAPE_H_
#define NEARFIELD_ENGINE_TOPK_SELECTOR_SHAPE_H_

namespace nearfield::gpu {

struct SelectorShape {
  int k_max;
  int threads;
  int capacity;  // maximum number of keys that reach the threshold
  int bin_bits;
  int vectors;   // of the ring: see RowRing
  int stages;    // of the ring
  bool grouped;  // several blocks may work on a row
};

}  // namespace nearfield::gpu

#endif  // NEARFIELD_ENGINE_TOPK_SELECTOR_SHAPE_H_
