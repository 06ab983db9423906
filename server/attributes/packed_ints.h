// PackedInts: integers that all take the same number of bits, the minimum for the largest of them.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"

namespace nearfield::server {

// Immutable.
class PackedInts {
 public:
  PackedInts() = default;
  explicit PackedInts(absl::Span<const uint32_t> values)
      : bits_(values.empty() ? 0
                             : static_cast<uint32_t>(std::bit_width(
                                   *std::max_element(values.begin(), values.end())))),
        words_((values.size() * bits_ + 63) / 64) {
    if (bits_ == 0) return;
    uint64_t bit = 0;
    for (const uint32_t value : values) {
      const uint64_t shift = bit % 64;
      words_[bit / 64] |= uint64_t{value} << shift;
      if (shift + bits_ > 64) words_[bit / 64 + 1] = uint64_t{value} >> (64 - shift);
      bit += bits_;
    }
  }

  // Requires: index is that of a value.
  uint32_t at(int64_t index) const {
    if (bits_ == 0) return 0;
    const uint64_t bit = static_cast<uint64_t>(index) * bits_;
    const uint64_t shift = bit % 64;
    uint64_t value = words_[bit / 64] >> shift;
    if (shift + bits_ > 64) value |= words_[bit / 64 + 1] << (64 - shift);
    return static_cast<uint32_t>(value & ((uint64_t{1} << bits_) - 1));
  }
  // Returns an upper limit of bytes() for `count` values of at most `value_max`.
  static int64_t BytesMax(int64_t count, int64_t value_max) {
    const auto bits = static_cast<int64_t>(std::bit_width(static_cast<uint64_t>(value_max)));
    return (count * bits + 63) / 64 * 8;
  }
  int64_t bytes() const { return static_cast<int64_t>(words_.capacity() * sizeof(uint64_t)); }

 private:
  uint32_t bits_ = 0;  // of each value, at most 32
  std::vector<uint64_t> words_;
};

}  // namespace nearfield::server
