// Published selection algorithms that the adaptive choice does not use: what the tests and the
// benchmarks compare it with. README.md has their sources.
#pragma once

#include <span>

#include "engine/topk/algorithm.h"

namespace nearfield::gpu::published {

// Each is defined in the file of its name, or of the name that it begins with.
extern const SelectAlgorithm kBlockFilter;
extern const SelectAlgorithm kBlockSort;
extern const SelectAlgorithm kHistogram;
extern const SelectAlgorithm kHistogramUnroll1;
extern const SelectAlgorithm kHistogramUnroll4;
extern const SelectAlgorithm kHistogram256Bins;
extern const SelectAlgorithm kHistogram1024Bins;
extern const SelectAlgorithm kHistogramBinarySearch;
extern const SelectAlgorithm kRadixSelect8Bit;
extern const SelectAlgorithm kRadixSortTiered;
extern const SelectAlgorithm kWarpTournament;

// Returns all of them.
std::span<const SelectAlgorithm* const> Algorithms();

}  // namespace nearfield::gpu::published
