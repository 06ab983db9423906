// Sources that a selection reads: rows of scores, or rows of keys made elsewhere.
//
// A source turns a raw element and its index into its key, or into an entry, which is cheaper to
// make and holds the same information, or into a real number that is monotone in the key. Its
// QuickTest finds keys that reach a threshold; it is exact for the thresholds for which
// QuickTestIsExact returns true.
#pragma once

#include <cstdint>

#include "engine/topk/bucket_map.cuh"
#include "engine/topk/score_types.cuh"

namespace nearfield::gpu {

template <typename Scores>
struct ScoreSource {
  using Raw = typename Scores::Raw;
  using Score = typename Scores::Score;
  static constexpr bool kFewBits = Scores::kIdleOrderBits > 0;

  __device__ static uint64_t Key(Raw raw, uint32_t index) {
    return KeyOf(Scores::Value(raw), index);
  }

  __device__ static float Real(Raw raw) { return Scores::Real(Scores::Value(raw)); }
  __device__ static uint32_t OrderOfReal(float real) { return Scores::OrderOfReal(real); }
  // Returns the bits of the score itself, and the index.
  __device__ static uint64_t EntryOf(Score score, uint32_t index) {
    return (static_cast<uint64_t>(Scores::Bits(score)) << 32) | index;
  }
  __device__ static uint64_t Entry(Raw raw, uint32_t index) {
    return EntryOf(Scores::Value(raw), index);
  }
  // Requires: neither entry holds a NaN.
  __device__ static bool EntryBefore(uint64_t a, uint64_t b) {
    const Score of_a = ScoreOfEntry(a);
    const Score of_b = ScoreOfEntry(b);
    return of_a > of_b || (of_a == of_b && static_cast<uint32_t>(a) < static_cast<uint32_t>(b));
  }
  __device__ static Score ScoreOfEntry(uint64_t entry) {
    return Scores::OfBits(static_cast<uint32_t>(entry >> 32));
  }
  __device__ static float RealOfEntry(uint64_t entry) { return Scores::Real(ScoreOfEntry(entry)); }
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
        : bound_(Scores::OfOrder(max(KeyOrder(threshold), Scores::kLowestOrder))) {}
    __device__ bool operator()(Raw raw, uint32_t) const { return Scores::Value(raw) >= bound_; }

   private:
    const Score bound_;
  };
};

// Keys as in engine/score/order.h: unique, except kNoSelectKey, which means no key.
struct KeySource {
  using Raw = uint64_t;
  static constexpr bool kFewBits = false;

  __device__ static uint64_t Key(Raw raw, uint32_t) { return raw; }
  __device__ static float Real(Raw raw) { return ScoreOf(KeyOrder(raw)); }
  __device__ static uint32_t OrderOfReal(float real) { return OrderOf(real); }
  __device__ static uint64_t Entry(Raw raw, uint32_t) { return raw; }
  __device__ static bool EntryBefore(uint64_t a, uint64_t b) { return a > b; }
  __device__ static float RealOfEntry(uint64_t entry) { return Real(entry); }
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

inline constexpr uint32_t kNoIndex = 0xffffffffu;

// Destination of the results of a row of scores, best first.
template <typename Scores>
struct ScoreResults {
  using Raw = typename Scores::Raw;
  Raw* values;
  uint32_t* indices;

  __device__ void Entry(uint32_t rank, uint64_t entry) const {
    values[rank] = Scores::FromValue(Scores::Returned(ScoreSource<Scores>::ScoreOfEntry(entry)));
    indices[rank] = static_cast<uint32_t>(entry);
  }
  __device__ void Key(uint32_t rank, uint64_t key) const {
    values[rank] = Scores::FromValue(Scores::OfOrder(KeyOrder(key)));
    indices[rank] = KeyIndex(key);
  }
  // Writes a place of a row with fewer scores than places.
  __device__ void None(uint32_t rank) const {
    values[rank] = Scores::FromValue(Scores::OfOrder(Scores::kLowestOrder));
    indices[rank] = kNoIndex;
  }
};

// Destination of the results of a row of keys, best first.
struct KeyResults {
  uint64_t* keys;

  __device__ void Entry(uint32_t rank, uint64_t key) const { keys[rank] = key; }
  __device__ void Key(uint32_t rank, uint64_t key) const { keys[rank] = key; }
};

}  // namespace nearfield::gpu
