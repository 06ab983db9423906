// histogram: its policies, and the variants that differ in them alone.
#pragma once

#include <array>
#include <cstdint>

#include "engine/topk/algorithm.h"
#include "engine/topk/published/digit_select.h"

namespace nearfield::gpu {

struct HistogramPolicy {
  uint32_t threads;
  int unroll;     // 16-byte loads in flight per thread
  int bins_log2;  // 256, 512 or 1024 bins; 512: the sign, the exponent and 3 bits of the mantissa
  // Finds the bin of the k-th by a binary search of one thread over the sums of the bins, not by
  // all threads at once.
  bool binary_search;
};

// The first one is the algorithm. The others differ in one value, to show its effect, and select
// fp32 scores alone.
inline constexpr std::array<HistogramPolicy, 6> kHistogramPolicies = {{
    {.threads = kDigitThreads, .unroll = 8, .bins_log2 = 9, .binary_search = false},
    {.threads = kDigitThreads, .unroll = 1, .bins_log2 = 9, .binary_search = false},
    {.threads = kDigitThreads, .unroll = 4, .bins_log2 = 9, .binary_search = false},
    {.threads = kDigitThreads, .unroll = 8, .bins_log2 = 8, .binary_search = false},
    {.threads = kDigitThreads, .unroll = 8, .bins_log2 = 10, .binary_search = false},
    {.threads = kDigitThreads, .unroll = 8, .bins_log2 = 9, .binary_search = true},
}};

extern const SelectAlgorithm kHistogram;
extern const SelectAlgorithm kHistogramUnroll1;
extern const SelectAlgorithm kHistogramUnroll4;
extern const SelectAlgorithm kHistogram256Bins;
extern const SelectAlgorithm kHistogram1024Bins;
extern const SelectAlgorithm kHistogramBinarySearch;

}  // namespace nearfield::gpu
