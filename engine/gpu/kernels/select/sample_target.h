// How many keys of a sample must reach a threshold so that, almost surely, at least k of all keys
// do and no more than there is room for. Host and device. A guess only: whoever uses it counts.
//
// Of s keys drawn evenly from n, the k best hold k * s / n in the mean, with a deviation of no more
// than its square root. The threshold is put kDeviations of these lower, and a few keys more where
// the mean is so small that the square root says little.
#ifndef NEARFIELD_ENGINE_GPU_KERNELS_SELECT_SAMPLE_TARGET_H_
#define NEARFIELD_ENGINE_GPU_KERNELS_SELECT_SAMPLE_TARGET_H_

#include <cmath>
#include <cstdint>

#include "engine/score/host_device.h"

namespace nearfield::gpu {

struct SampleTarget {
  uint32_t wanted = 0;  // keys of the sample that must reach the threshold
  uint32_t accepted =
      0;  // and may: more would overflow the room; < wanted: the sample is too small
};

inline constexpr float kSampleDeviations = 4.5f;
inline constexpr float kSampleFew = 6.0f;

// Requires 1 <= k <= n, 1 <= sample <= n, room >= k.
NEARFIELD_HOST_DEVICE inline SampleTarget TargetOf(uint32_t k, float sample_share, uint32_t room) {
  const float mean = static_cast<float>(k) * sample_share;
  const float fitting = static_cast<float>(room) * sample_share;
  const float accepted = fitting - kSampleDeviations * sqrtf(fitting) - 4.0f;
  SampleTarget target;
  target.wanted = static_cast<uint32_t>(mean + kSampleDeviations * sqrtf(mean) + kSampleFew);
  target.accepted = accepted > 0.0f ? static_cast<uint32_t>(accepted) : 0;
  return target;
}

// The rows' sizes that a sample is planned from.
struct SampleShape {
  uint32_t n = 0;
  uint32_t k = 0;
  uint32_t room = 0;        // keys that may be kept; >= k
  uint32_t per_vector = 0;  // scores in 16 bytes
  uint32_t blocks = 0;      // that share the row
};

inline constexpr int kEveryKey = -1;  // no threshold: sort the row
inline constexpr int kWholeRow = -2;  // count all keys
inline constexpr int kPairsLog2Min = 6;
inline constexpr int kPairsLog2Max = 20;

// The log2 of the pairs of vectors to sample, or one of the two above. The smallest sample that
// leaves few keys beside the k best and a margin before the room is full; a row of fewer than four
// times that is counted whole.
NEARFIELD_HOST_DEVICE inline int PlanSample(const SampleShape& shape) {
  if (shape.n <= shape.room && shape.k >= shape.n / 2) return kEveryKey;
  int pairs_log2 = kPairsLog2Min;
  // Several blocks sample at once: each takes two vectors a thread or so.
  if (shape.blocks > 1) pairs_log2 = 9;
  while (shape.blocks > 1 && (1u << (pairs_log2 - 8)) < shape.blocks) ++pairs_log2;
  for (; pairs_log2 <= kPairsLog2Max; ++pairs_log2) {
    const uint64_t sample = (uint64_t{2} * shape.per_vector) << pairs_log2;
    if (sample > shape.n / 4) return kWholeRow;
    const float share = static_cast<float>(sample) / static_cast<float>(shape.n);
    const SampleTarget target = TargetOf(shape.k, share, shape.room);
    const float kept = static_cast<float>(target.wanted) / share;
    const bool fits =
        static_cast<float>(target.accepted) >= 1.05f * static_cast<float>(target.wanted);
    if (fits && kept <= 2.0f * static_cast<float>(shape.k) + 512.0f) return pairs_log2;
  }
  return kWholeRow;
}

}  // namespace nearfield::gpu

#endif  // NEARFIELD_ENGINE_GPU_KERNELS_SELECT_SAMPLE_TARGET_H_
