// The total order: the higher score first; on equal scores the smaller id first. Inside a
// generation, the rank (place in id order) represents the id, and one 64-bit key holds score and
// rank: a larger key is better. Ranks of different generations are not comparable: their lists are
// merged by (score, id).
#pragma once

#include <cstdint>

#include "engine/score/host_device.h"
#include "engine/score/score.h"

namespace nearfield::score {

// Maps a score to bits with the same order: a < b as floats exactly when OrderedBits(a) <
// OrderedBits(b). Requires: not NaN and not -0, which holds for all scores.
NEARFIELD_HOST_DEVICE inline uint32_t OrderedBits(float score) {
  const uint32_t bits = BitsFromFloat(score);
  return (bits & 0x80000000u) != 0 ? ~bits : (bits | 0x80000000u);
}

NEARFIELD_HOST_DEVICE inline float ScoreFromOrderedBits(uint32_t ordered) {
  return FloatFromBits((ordered & 0x80000000u) != 0 ? (ordered & 0x7fffffffu) : ~ordered);
}

// The key of no row: below the key of every row, because ranks stay below 2^32 - 1.
inline constexpr uint64_t kNoKey = 0;
// A generation has fewer rows than this.
inline constexpr int64_t kRankMax = 0xfffffffe;

NEARFIELD_HOST_DEVICE inline uint64_t OrderKey(float score, uint32_t rank) {
  return (static_cast<uint64_t>(OrderedBits(score)) << 32) | static_cast<uint32_t>(~rank);
}
NEARFIELD_HOST_DEVICE inline float KeyScore(uint64_t key) {
  return ScoreFromOrderedBits(static_cast<uint32_t>(key >> 32));
}
NEARFIELD_HOST_DEVICE inline uint32_t KeyRank(uint64_t key) { return ~static_cast<uint32_t>(key); }

}  // namespace nearfield::score
