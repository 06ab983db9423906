// What a selection reads: rows of scores, or rows of keys made elsewhere.
//
// A source turns a raw element and its place into its key, and has a quick test for keys that reach
// a threshold, which is exact for the thresholds it names.
#ifndef NEARFIELD_ENGINE_GPU_KERNELS_SELECT_SELECT_SOURCES_CUH_
#define NEARFIELD_ENGINE_GPU_KERNELS_SELECT_SELECT_SOURCES_CUH_

#include <cstdint>

#include "engine/gpu/kernels/select/score_types.cuh"

namespace nearfield::gpu {

template <typename Scores>
struct ScoreSource {
  using Raw = typename Scores::Raw;

  __device__ static uint64_t Key(Raw raw, uint32_t index) {
    return KeyOf(Scores::Value(raw), index);
  }

  // A whole score, no NaN.
  __device__ static bool QuickTestIsExact(uint64_t threshold) {
    return static_cast<uint32_t>(threshold) == 0 && KeyOrder(threshold) != 0;
  }
  class QuickTest {
   public:
    __device__ explicit QuickTest(uint64_t threshold)
        : bound_(ScoreOf(max(KeyOrder(threshold), kLeastOrder))) {}
    __device__ bool operator()(Raw raw, uint32_t) const { return Scores::Value(raw) >= bound_; }

   private:
    const float bound_;
  };
};

// Keys as in engine/score/order.h: unique but for kNoSelectKey, which is no key at all.
struct KeySource {
  using Raw = uint64_t;

  __device__ static uint64_t Key(Raw raw, uint32_t) { return raw; }
  __device__ static bool QuickTestIsExact(uint64_t) { return true; }
  class QuickTest {
   public:
    __device__ explicit QuickTest(uint64_t threshold) : threshold_(threshold) {}
    __device__ bool operator()(Raw raw, uint32_t) const { return raw >= threshold_; }

   private:
    const uint64_t threshold_;
  };
};

}  // namespace nearfield::gpu

#endif  // NEARFIELD_ENGINE_GPU_KERNELS_SELECT_SELECT_SOURCES_CUH_
