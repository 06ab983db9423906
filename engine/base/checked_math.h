// Integer arithmetic on sizes that cannot wrap around unseen: every product of a caller's numbers
// goes through here.
#ifndef NEARFIELD_ENGINE_BASE_CHECKED_MATH_H_
#define NEARFIELD_ENGINE_BASE_CHECKED_MATH_H_

#include <cstdint>
#include <optional>

namespace nearfield {

// a * b, or nothing where the product does not fit int64.
inline std::optional<int64_t> CheckedMul(int64_t a, int64_t b) {
  int64_t product = 0;
  if (__builtin_mul_overflow(a, b, &product)) return std::nullopt;
  return product;
}

// a + b, or nothing where the sum does not fit int64.
inline std::optional<int64_t> CheckedAdd(int64_t a, int64_t b) {
  int64_t sum = 0;
  if (__builtin_add_overflow(a, b, &sum)) return std::nullopt;
  return sum;
}

// ceil(a / b); a >= 0, b > 0.
constexpr int64_t CeilDiv(int64_t a, int64_t b) { return a / b + (a % b != 0 ? 1 : 0); }

// The smallest multiple of b that is >= a; a >= 0, b > 0, no overflow by the caller's limits.
constexpr int64_t RoundUp(int64_t a, int64_t b) { return CeilDiv(a, b) * b; }

}  // namespace nearfield

#endif  // NEARFIELD_ENGINE_BASE_CHECKED_MATH_H_
