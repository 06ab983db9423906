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
};

// The last one is the algorithm. The others show the effect of the loads in flight.
inline constexpr std::array<HistogramPolicy, 3> kHistogramPolicies = {{
    {.threads = kDigitThreads, .unroll = 1, .bins_log2 = 9},
    {.threads = kDigitThreads, .unroll = 4, .bins_log2 = 9},
    {.threads = kDigitThreads, .unroll = 8, .bins_log2 = 9},
}};

extern const SelectAlgorithm kHistogramUnroll1;
extern const SelectAlgorithm kHistogramUnroll4;
extern const SelectAlgorithm kHistogram;

}  // namespace nearfield::gpu
