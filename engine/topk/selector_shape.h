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
  // The ring shares its memory with the bins, so that one more block fits on an SM. It fills only
  // when the threshold is known.
  bool late_ring = false;
  // Several teams of these threads are in a block.
  bool teams = false;
};

}  // namespace nearfield::gpu
