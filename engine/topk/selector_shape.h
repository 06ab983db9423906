// Sizes of a row selector, as data.
#pragma once

namespace nearfield::gpu {

struct SelectorShape {
  int k_max;
  int threads;
  int capacity;  // maximum number of keys that reach the threshold
  int bin_bits;
  int vectors;   // of the ring: see RowRing
  int stages;    // of the ring
  bool grouped;  // several blocks may work on a row
  // Sorts by merging, which is slower but needs no memory for a second copy of the keys.
  bool merges = false;
  // The ring fills only when the threshold is known, and shares its memory with the bins: one more
  // block fits on an SM, and copies do not delay the samples of other blocks.
  bool late_ring = false;
};

}  // namespace nearfield::gpu
