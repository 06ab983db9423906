// The arithmetic of a most-significant-digit radix selection over 64-bit keys. Host and device, so
// that tests can run the whole algorithm without a GPU.
//
// Pass p looks at digit p of the keys whose earlier digits equal the prefix found so far, finds the
// digit that holds the k-th greatest key, and appends it to the prefix. Keys are unique (kNoKey
// aside, which is never counted), so at the latest after the last digit exactly the k greatest keys
// are >= the prefix.
#ifndef NEARFIELD_ENGINE_GPU_KERNELS_SELECT_RADIX_DIGITS_H_
#define NEARFIELD_ENGINE_GPU_KERNELS_SELECT_RADIX_DIGITS_H_

#include <cstdint>

#include "engine/score/host_device.h"

namespace nearfield::gpu {

inline constexpr int kDigitBits = 12;
inline constexpr int kDigitBins = 1 << kDigitBits;
inline constexpr int kDigitPasses =
    (64 + kDigitBits - 1) / kDigitBits;  // the last one has fewer bits

// Low bits not yet looked at after pass p: 52, 40, 28, 16, 4, 0.
NEARFIELD_HOST_DEVICE constexpr int ShiftAfter(int pass) {
  const int shift = 64 - kDigitBits * (pass + 1);
  return shift > 0 ? shift : 0;
}

// Width of digit p.
NEARFIELD_HOST_DEVICE constexpr int DigitWidth(int pass) {
  return (pass == 0 ? 64 : ShiftAfter(pass - 1)) - ShiftAfter(pass);
}

NEARFIELD_HOST_DEVICE constexpr uint32_t DigitOf(uint64_t key, int pass) {
  return static_cast<uint32_t>(key >> ShiftAfter(pass)) & ((1u << DigitWidth(pass)) - 1);
}

// True where the digits before pass p are those of the prefix. The prefix is kept in place: its low
// bits are zero.
NEARFIELD_HOST_DEVICE constexpr bool HasPrefix(uint64_t key, uint64_t prefix, int pass) {
  return pass == 0 || ((key ^ prefix) >> ShiftAfter(pass - 1)) == 0;
}

// Where a selection stands. All keys >= prefix are candidates; `above` of them have a greater
// prefix and are certain.
struct RadixState {
  uint64_t prefix = 0;
  uint32_t wanted = 0;      // keys to select: min(k, keys there are)
  uint32_t above = 0;       // keys whose digits so far are greater than the prefix; < wanted
  uint32_t candidates = 0;  // keys >= prefix; >= wanted
};

// Takes the digit found in pass p: `greater` keys with the same prefix have a greater digit,
// `equal` this very digit. Requires greater < wanted - above <= greater + equal.
NEARFIELD_HOST_DEVICE inline RadixState NextState(RadixState state, int pass, uint32_t digit,
                                                  uint32_t greater, uint32_t equal) {
  state.prefix |= static_cast<uint64_t>(digit) << ShiftAfter(pass);
  state.above += greater;
  state.candidates = state.above + equal;
  return state;
}

// The least key that is a candidate: never kNoKey.
NEARFIELD_HOST_DEVICE constexpr uint64_t Threshold(const RadixState& state) {
  return state.prefix != 0 ? state.prefix : 1;
}

}  // namespace nearfield::gpu

#endif  // NEARFIELD_ENGINE_GPU_KERNELS_SELECT_RADIX_DIGITS_H_
