// Random numbers for tests. One seed gives the same numbers on every machine and library, unlike
// the distributions of <random>.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/types/span.h"

namespace nearfield::testing {

// A bijection of 64-bit numbers without visible pattern (the finalizer of SplitMix64).
constexpr uint64_t Scramble(uint64_t value) {
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9u;
  value = (value ^ (value >> 27)) * 0x94d049bb133111ebu;
  return value ^ (value >> 31);
}

class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}

  uint64_t Bits() { return Scramble(state_ += 0x9e3779b97f4a7c15u); }
  // Returns a uniform number in [begin, end). Requires: begin < end.
  int64_t Between(int64_t begin, int64_t end) {
    return begin + static_cast<int64_t>(Bits() % static_cast<uint64_t>(end - begin));
  }
  // Returns true with probability 1/n.
  bool OneIn(int64_t n) { return Between(0, n) == 0; }
  double Unit() { return static_cast<double>(Bits() >> 11) * 0x1p-53; }
  // Returns a number with roughly a normal distribution, within +-6.
  float Gaussian() {
    double sum = -6.0;
    for (int i = 0; i < 12; ++i)
      sum += static_cast<double>(static_cast<uint32_t>(Bits())) * 0x1p-32;
    return static_cast<float>(sum);
  }
  template <typename T>
  const T& OneOf(absl::Span<const T> choices) {
    return choices[static_cast<size_t>(Between(0, static_cast<int64_t>(choices.size())))];
  }
  template <typename T>
  void Shuffle(std::vector<T>& values) {
    for (size_t i = values.size(); i > 1; --i) {
      std::swap(values[i - 1], values[static_cast<size_t>(Between(0, static_cast<int64_t>(i)))]);
    }
  }

 private:
  uint64_t state_;
};

}  // namespace nearfield::testing
