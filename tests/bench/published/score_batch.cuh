// Scores that one lane reads of a row at a time: four vectors, kept unconverted until they are
// used, so that the next batch can be in flight meanwhile.
#pragma once

#include <cstdint>

#include "engine/topk/row_reader.cuh"
#include "engine/topk/score_types.cuh"
#include "engine/topk/warp.h"

namespace nearfield::gpu::published {

// Step s of a row is its vectors [s * 128, (s + 1) * 128): four for each of 32 lanes. Across the
// warp these are four contiguous runs of 512 bytes.
template <typename Scores>
class ScoreBatch {
 public:
  using Raw = typename Scores::Raw;
  using Row = RowReader<Scores>;
  static constexpr int kVectors = 4;
  static constexpr int kPerVector = static_cast<int>(Row::kPerVector);
  static constexpr int kScores = kVectors * kPerVector;  // per lane
  static constexpr uint32_t kStepVectors = kWarp * kVectors;

  __device__ static uint32_t Steps(const Row& row) {
    return (row.vectors() + kStepVectors - 1) / kStepVectors;
  }

  // Loads the lane's vectors of a step. Vectors past the end of the row become 0 and have no keys.
  // `step` may be past the last.
  __device__ __forceinline__ void Load(const Row& row, uint32_t step) {
    first_ = step * kStepVectors + threadIdx.x % kWarp;
#pragma unroll
    for (int i = 0; i < kVectors; ++i) {
      const uint32_t vector = first_ + static_cast<uint32_t>(i) * kWarp;
      bits_[i] = vector < row.vectors() ? row.Load(vector).bits : uint4{};
    }
  }

  // Returns true if a score may be useful, given that `floor` is the worst useful score. Returns
  // false only if all scores are below it; with a NaN on either side a score is not below.
  __device__ __forceinline__ bool Reaches(typename Scores::Score floor) const {
    bool reaches = false;
#pragma unroll
    for (int i = 0; i < kVectors; ++i) {
#pragma unroll
      for (int place = 0; place < kPerVector; ++place) {
        reaches |= !(Scores::Value(ScoreVector<Scores>{bits_[i]}.raw(place)) < floor);
      }
    }
    return reaches;
  }

  // Returns the keys of scores [group * kCount, (group + 1) * kCount) of the batch; kNoSelectKey
  // past the end of the row. `group` need not be a constant.
  template <int kCount>
  __device__ __forceinline__ void Keys(const Row& row, int group, uint64_t (&keys)[kCount]) const {
    static_assert(kScores % kCount == 0, "groups are whole");
    constexpr int kWords = kCount * static_cast<int>(sizeof(Raw)) / 4;
    static_assert(kWords * 4 == kCount * static_cast<int>(sizeof(Raw)), "words are whole");
    uint32_t all[kVectors * 4];
    __builtin_memcpy(all, bits_, sizeof(all));
    // Halves the words by the bits of the group, with masks: a conditional would become an index,
    // and the batch would move to local memory.
#pragma unroll
    for (int width = kScores / kCount / 2; width > 0; width /= 2) {
      const uint32_t upper = (group & width) != 0 ? ~0u : 0u;
#pragma unroll
      for (int word = 0; word < kVectors * 2; ++word) {
        if (word >= width * kWords) continue;
        all[word] = (all[word + width * kWords] & upper) | (all[word] & ~upper);
      }
    }
    Raw scores[kCount];
    __builtin_memcpy(scores, all, sizeof(scores));
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      const int at = group * kCount + i;
      const uint32_t vector = first_ + static_cast<uint32_t>(at / kPerVector) * kWarp;
      const uint32_t index = row.IndexOf(vector, at % kPerVector);
      keys[i] = vector < row.vectors() ? KeyOf(Scores::Value(scores[i]), index) : uint64_t{0};
    }
  }

 private:
  uint4 bits_[kVectors];
  uint32_t first_;
};

// Returns a lane's key of the scores outside the vectors, which one warp reads together.
template <typename Scores>
__device__ __forceinline__ uint64_t EdgeKey(const RowReader<Scores>& row, uint32_t lane) {
  if (lane >= row.edges()) return kNoSelectKey;
  const uint32_t index = row.EdgeIndex(lane);
  return KeyOf(Scores::Value(row.At(index)), index);
}

}  // namespace nearfield::gpu::published
