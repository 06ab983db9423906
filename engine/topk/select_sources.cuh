// Sources that a selection reads: rows of scores, or rows of keys made elsewhere.
//
// A source turns a raw element and its index into its key, or into an entry, which is cheaper to
// make and holds the same information. Its QuickTest finds keys that reach a threshold; it is exact
// for the thresholds for which QuickTestIsExact returns true.
#pragma once

#include <cstdint>

#include "engine/topk/bucket_map.cuh"
#include "engine/topk/score_types.cuh"

namespace nearfield::gpu {

template <typename Scores>
struct ScoreSource {
  using Raw = typename Scores::Raw;
  static constexpr bool kFewBits = Scores::kIdleOrderBits > 0;

  __device__ static uint64_t Key(Raw raw, uint32_t index) {
    return KeyOf(Scores::Value(raw), index);
  }

  __device__ static float Score(Raw raw) { return Scores::Value(raw); }
  // Returns the bits of the score itself, and the index.
  __device__ static uint64_t EntryOf(float score, uint32_t index) {
    return (static_cast<uint64_t>(__float_as_uint(score)) << 32) | index;
  }
  __device__ static uint64_t Entry(Raw raw, uint32_t index) {
    return EntryOf(Scores::Value(raw), index);
  }
  // Requires: neither entry holds a NaN.
  __device__ static bool EntryBefore(uint64_t a, uint64_t b) {
    const float of_a = ScoreOfEntry(a);
    const float of_b = ScoreOfEntry(b);
    return of_a > of_b || (of_a == of_b && static_cast<uint32_t>(a) < static_cast<uint32_t>(b));
  }
  __device__ static float ScoreOfEntry(uint64_t entry) {
    return __uint_as_float(static_cast<uint32_t>(entry >> 32));
  }
  __device__ static uint64_t KeyOfEntry(uint64_t entry) {
    return KeyOf(ScoreOfEntry(entry), static_cast<uint32_t>(entry));
  }
  __device__ static KeyBits BitsOf(uint32_t n) { return gpu::BitsOf<Scores>(n); }
  // Returns true if the threshold separates scores (not indices) and is not a NaN.
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

// Keys as in engine/score/order.h: unique, except kNoSelectKey, which means no key.
struct KeySource {
  using Raw = uint64_t;
  static constexpr bool kFewBits = false;

  __device__ static uint64_t Key(Raw raw, uint32_t) { return raw; }
  __device__ static float Score(Raw raw) { return ScoreOf(KeyOrder(raw)); }
  __device__ static uint64_t Entry(Raw raw, uint32_t) { return raw; }
  __device__ static bool EntryBefore(uint64_t a, uint64_t b) { return a > b; }
  __device__ static float ScoreOfEntry(uint64_t entry) { return Score(entry); }
  __device__ static uint64_t KeyOfEntry(uint64_t entry) { return entry; }
  __device__ static KeyBits BitsOf(uint32_t) { return {}; }
  __device__ static bool QuickTestIsExact(uint64_t) { return true; }
  class QuickTest {
   public:
    __device__ explicit QuickTest(uint64_t threshold) : threshold_(threshold) {}
    __device__ bool operator()(Raw raw, uint32_t) const { return raw >= threshold_; }

   private:
    const uint64_t threshold_;
  };
};

// Destination of the results of a row of scores, best first.
template <typename Scores>
struct ScoreResults {
  using Raw = typename Scores::Raw;
  Raw* values;
  uint32_t* indices;

  __device__ void Entry(uint32_t rank, uint64_t entry) const {
    // -0 + 0 is +0.
    values[rank] = Scores::FromValue(ScoreSource<Scores>::ScoreOfEntry(entry) + 0.0f);
    indices[rank] = static_cast<uint32_t>(entry);
  }
  __device__ void Key(uint32_t rank, uint64_t key) const {
    values[rank] = Scores::FromValue(ScoreOf(KeyOrder(key)));
    indices[rank] = KeyIndex(key);
  }
};

// Destination of the results of a row of keys, best first.
struct KeyResults {
  uint64_t* keys;

  __device__ void Entry(uint32_t rank, uint64_t key) const { keys[rank] = key; }
  __device__ void Key(uint32_t rank, uint64_t key) const { keys[rank] = key; }
};

}  // namespace nearfield::gpu
