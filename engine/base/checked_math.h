// Overflow-checked integer arithmetic on sizes. Every product of numbers from a caller is computed
// here.
#pragma once

#include <cstdint>
#include <optional>

namespace nearfield {

// Returns a * b, or nullopt if the product does not fit into int64.
inline std::optional<int64_t> CheckedMul(int64_t a, int64_t b) {
  int64_t product = 0;
  if (__builtin_mul_overflow(a, b, &product)) return std::nullopt;
  return product;
}

// Returns a + b, or nullopt if the sum does not fit into int64.
inline std::optional<int64_t> CheckedAdd(int64_t a, int64_t b) {
  int64_t sum = 0;
  if (__builtin_add_overflow(a, b, &sum)) return std::nullopt;
  return sum;
}

// Returns ceil(a / b). Requires: a >= 0, b > 0.
constexpr int64_t CeilDiv(int64_t a, int64_t b) { return a / b + (a % b != 0 ? 1 : 0); }

// Returns the smallest multiple of b that is >= a. Requires: a >= 0, b > 0, no overflow.
constexpr int64_t RoundUp(int64_t a, int64_t b) { return CeilDiv(a, b) * b; }

}  // namespace nearfield
