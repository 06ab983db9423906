// Computes how many keys of a sample must reach a threshold so that, almost surely, at least k of
// all keys reach it and no more than there is room for. Host and device. The result is a guess: its
// user must count.
//
// Among s keys drawn evenly from n, on average k * s / n are among the k best, with a standard
// deviation of the square root of k * s / n * (1 - s / n). The threshold is set kSampleDeviations
// of these lower, plus a few keys if the mean is so small that the square root means little. On the
// other side, the sample's share of the keys that just fit must exceed the keys that reach the
// threshold by the same number of deviations.
#pragma once

#include <cmath>
#include <cstdint>

#include "engine/score/host_device.h"

namespace nearfield::gpu {

struct SampleTarget {
  uint32_t wanted = 0;  // keys of the sample that must reach the threshold
  // Maximum that may reach it: more would overflow the room. If < wanted, the sample is too small.
  uint32_t accepted = 0;
};

inline constexpr float kSampleDeviations = 4.0f;
inline constexpr float kSampleFew = 6.0f;

// Returns the target for a sample. Requires: 1 <= k <= n, 1 <= sample <= n, room >= k.
// neighbours: keys of the sample that are adjacent in the row. In a sorted row the k best are
// adjacent too, so the threshold must not lie among the first neighbours.
NEARFIELD_HOST_DEVICE inline SampleTarget TargetOf(uint32_t k, float sample_share, uint32_t room,
                                                   uint32_t neighbours) {
  const float mean = static_cast<float>(k) * sample_share;
  const float fitting = static_cast<float>(room) * sample_share;
  const float left_out = 1.0f - sample_share;
  const float accepted = fitting - kSampleDeviations * sqrtf(fitting * left_out) - 1.0f;
  SampleTarget target;
  const float more = kSampleDeviations * sqrtf(mean * left_out) + kSampleFew;
  target.wanted = static_cast<uint32_t>(mean + fmaxf(more, static_cast<float>(neighbours + 1)));
  target.accepted = accepted > 0.0f ? static_cast<uint32_t>(accepted) : 0;
  return target;
}

// Sizes of a row from which its sample is planned.
struct SampleShape {
  uint32_t n = 0;
  uint32_t k = 0;
  uint32_t room = 0;        // keys that may be kept; >= k
  uint32_t per_vector = 0;  // scores in 16 bytes
  uint32_t blocks = 0;      // blocks that share the row
};

enum class SampleWay : uint8_t {
  kEveryKey,     // no threshold: sort the row
  kWholeRow,     // count all keys
  kOwnSample,    // every block draws the same sample, independently of the others
  kSharedSample  // every block draws its part of the sample
};
struct SamplePlan {
  SampleWay way = SampleWay::kWholeRow;
  int pairs_log2 = 0;  // log2 of the pairs of vectors to sample
  int run_log2 = 1;    // log2 of its vectors that are adjacent in the row
};
inline constexpr int kPairsLog2Min = 6;
inline constexpr int kPairsLog2Max = 20;
// A run of 128 bytes. Device memory gives at least 64 bytes at a time, and opens a page for them.
inline constexpr int kRunLog2Max = 3;
// A shared sample costs barriers, so each block takes about two vectors per thread.
inline constexpr int kSharedPairsLog2Min = 9;
// Maximum size of a sample that every block draws.
inline constexpr uint32_t kOwnSampleMax = 16384;
// Approximate cost, in instructions of a thread, of counting a key of the sample, and of keeping
// and sorting a key of the row.
inline constexpr float kSampledKeyCost = 14.0f;
inline constexpr float kKeptKeyCost = 90.0f;

NEARFIELD_HOST_DEVICE inline uint64_t SampleSize(const SampleShape& shape, int pairs_log2) {
  return (uint64_t{2} * shape.per_vector) << pairs_log2;
}

// Returns how many keys of the row a sample's threshold keeps on average; negative if it would
// leave no margin before the room is full.
NEARFIELD_HOST_DEVICE inline float KeptBySample(const SampleShape& shape, int pairs_log2) {
  const float share =
      static_cast<float>(SampleSize(shape, pairs_log2)) / static_cast<float>(shape.n);
  const SampleTarget target = TargetOf(shape.k, share, shape.room, 2 * shape.per_vector);
  const float wanted = static_cast<float>(target.wanted);
  return static_cast<float>(target.accepted) >= 1.01f * wanted ? wanted / share : -1.0f;
}

// Returns the longest run, as log2 of its vectors, that raises the target by at most a third and
// leaves room for it. Long runs are read faster.
NEARFIELD_HOST_DEVICE inline int RunOfSample(const SampleShape& shape, int pairs_log2) {
  const float share =
      static_cast<float>(SampleSize(shape, pairs_log2)) / static_cast<float>(shape.n);
  const uint32_t least = TargetOf(shape.k, share, shape.room, 2 * shape.per_vector).wanted;
  for (int run_log2 = kRunLog2Max; run_log2 > 1; --run_log2) {
    const SampleTarget target = TargetOf(shape.k, share, shape.room, shape.per_vector << run_log2);
    if (target.wanted <= least + least / 3 && target.wanted < target.accepted) return run_log2;
  }
  return 1;
}

// Returns the cheapest sample that each block can draw for itself; if there is none, the smallest
// that the blocks can draw together. If the row has fewer than four times as many scores as the
// sample, all of it is counted.
NEARFIELD_HOST_DEVICE inline SamplePlan PlanSample(const SampleShape& shape) {
  if (shape.n <= shape.room && shape.k >= shape.n / 2) return {SampleWay::kEveryKey, 0};
  SamplePlan plan;
  float least_cost = 0.0f;
  for (int pairs_log2 = kPairsLog2Min; pairs_log2 <= kPairsLog2Max; ++pairs_log2) {
    const uint64_t sample = SampleSize(shape, pairs_log2);
    if (sample > kOwnSampleMax || sample > shape.n / 4) break;
    const float kept = KeptBySample(shape, pairs_log2);
    if (kept < 0.0f) continue;
    const float cost = kSampledKeyCost * static_cast<float>(sample) + kKeptKeyCost * kept;
    if (plan.way == SampleWay::kOwnSample && cost >= least_cost) continue;
    plan = {SampleWay::kOwnSample, pairs_log2, RunOfSample(shape, pairs_log2)};
    least_cost = cost;
  }
  if (plan.way == SampleWay::kOwnSample) return plan;
  int pairs_log2 = kSharedPairsLog2Min;
  while ((1u << (pairs_log2 - 8)) < shape.blocks) ++pairs_log2;
  for (; pairs_log2 <= kPairsLog2Max; ++pairs_log2) {
    if (SampleSize(shape, pairs_log2) > shape.n / 4) break;
    const float kept = KeptBySample(shape, pairs_log2);
    if (kept >= 0.0f && kept <= 2.0f * static_cast<float>(shape.k) + 512.0f) {
      return {SampleWay::kSharedSample, pairs_log2, RunOfSample(shape, pairs_log2)};
    }
  }
  return plan;
}

}  // namespace nearfield::gpu
