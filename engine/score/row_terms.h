// Row terms: the value t that a query adds to the score s of a row, and the final score
//
//   F(s, t) = (float)(w0 * (double)s + t) + 0.0f,  w0 > 0,  t = ((t_1 + t_2) + ...),  all in fp64.
//
// One definition for the host and the device: each operation is rounded separately, to nearest, in
// the order written; only Exp2 fuses, and says where. t is finite for every row and all valid
// parameters. So F is never NaN, and it does not decrease when s grows, because rounding is
// monotonic: F of an upper bound of s is an upper bound of the final score, and F of a lower bound
// is a lower bound.
#pragma once

#include <cmath>
#include <cstdint>

#include "engine/score/host_device.h"
#include "engine/score/order.h"
#include "engine/score/score.h"
#include "nearfield/engine/row_terms.h"

namespace nearfield::score {

// fp64 operations, each rounded separately (never fused).
NEARFIELD_HOST_DEVICE inline double Product(double a, double b) {
#ifdef __CUDA_ARCH__
  return __dmul_rn(a, b);
#else
  return a * b;
#endif
}
NEARFIELD_HOST_DEVICE inline double Sum(double a, double b) {
#ifdef __CUDA_ARCH__
  return __dadd_rn(a, b);
#else
  return a + b;
#endif
}
NEARFIELD_HOST_DEVICE inline double FusedProductSum(double a, double b, double c) {
#ifdef __CUDA_ARCH__
  return __fma_rn(a, b, c);
#else
  return std::fma(a, b, c);
#endif
}

NEARFIELD_HOST_DEVICE inline double DoubleFromBits(uint64_t bits) {
#ifdef __CUDA_ARCH__
  return __longlong_as_double(static_cast<long long>(bits));
#else
  double value;
  __builtin_memcpy(&value, &bits, sizeof(value));
  return value;
#endif
}

NEARFIELD_HOST_DEVICE inline double Clamp(double value, double low, double high) {
  const double raised = value < low ? low : value;
  return raised > high ? high : raised;
}

inline constexpr double kFiniteMax = 0x1.fffffffffffffp1023;
// A form of a term is at most this in magnitude.
inline constexpr double kFormMax = 0x1p100;

// Returns 2^x within one unit in the last place; exact if x is an integer; 0 below -1022. Requires:
// x <= 0, maybe -inf.
//
// x = n + r with n the nearest integer, |r| <= 1/2; 2^r is the Taylor polynomial of degree 13,
// whose coefficients ln(2)^i / i! are rounded to nearest, by Horner's rule from the highest degree,
// one fused multiply-add for each degree.
NEARFIELD_HOST_DEVICE inline double Exp2(double x) {
  constexpr double kCoefficients[] = {0x1.816193166d0f9p-40, 0x1.c3bd650fc2986p-36,
                                      0x1.e8cac7351bb25p-32, 0x1.e4cf5158b8ecap-28,
                                      0x1.b5253d395e7c4p-24, 0x1.62c0223a5c824p-20,
                                      0x1.ffcbfc588b0c7p-17, 0x1.430912f86c787p-13,
                                      0x1.5d87fe78a6731p-10, 0x1.3b2ab6fba4e77p-7,
                                      0x1.c6b08d704a0c0p-5,  0x1.ebfbdff82c58fp-3,
                                      0x1.62e42fefa39efp-1,  1.0};
  if (x < -1022.0) return 0.0;
  // Adding and subtracting 1.5 * 2^52 rounds to the nearest integer, ties to even.
  const double n = Sum(Sum(x, 0x1.8p52), -0x1.8p52);
  const double r = Sum(x, -n);
  double power = kCoefficients[0];
  for (int i = 1; i < 14; ++i) power = FusedProductSum(power, r, kCoefficients[i]);
  const auto biased = static_cast<uint64_t>(static_cast<int64_t>(n) + 1023);
  return Product(power, DoubleFromBits(biased << 52));
}

// Returns the distance of a number from the origin, with its sign. A distance beyond the range of
// fp64 is the largest finite one. Requires: a and origin are finite.
NEARFIELD_HOST_DEVICE inline double FromOrigin(double a, double origin) {
  return Clamp(Sum(a, -origin), -kFiniteMax, kFiniteMax);
}

// Returns the form of a term for a number, clamped to +-kFormMax. Requires: `a` is finite; for kIs
// 1 or 0.
NEARFIELD_HOST_DEVICE inline double FormOf(const TermParameters& term, double a) {
  if (term.form == TermForm::kIs) return a;
  const double distance = FromOrigin(a, term.origin);
  double value;
  if (term.form == TermForm::kHalfLife) {
    const double magnitude = distance < 0.0 ? -distance : distance;
    const double beyond = Sum(magnitude, -term.offset);
    value = Exp2(-Product(beyond > 0.0 ? beyond : 0.0, term.scale));
  } else {
    value = Product(distance, term.scale);
    if (term.form == TermForm::kClamped) value = Clamp(value, term.low, term.high);
  }
  return Clamp(value, -kFormMax, kFormMax);
}

// Returns true if a row has this number: it is finite.
NEARFIELD_HOST_DEVICE inline bool IsNumber(double a) { return a >= -kFiniteMax && a <= kFiniteMax; }

// Returns weight * form; weight * missing for a row without a number. A sum of kTermsMax terms is
// finite: each is at most 2^160 in magnitude.
NEARFIELD_HOST_DEVICE inline double TermOf(const TermParameters& term, double a) {
  return Product(term.weight, IsNumber(a) ? FormOf(term, a) : term.missing);
}

// t of a row: its terms in the order of the request.
class TermSum {
 public:
  NEARFIELD_HOST_DEVICE void Add(double term) {
    value_ = empty_ ? term : Sum(value_, term);
    empty_ = false;
  }
  NEARFIELD_HOST_DEVICE double value() const { return value_; }

 private:
  double value_ = 0.0;
  bool empty_ = true;
};

// Returns F(s, t). Requires: s is not NaN, t is finite.
NEARFIELD_HOST_DEVICE inline float FinalScore(double score_weight, float s, double t) {
  return static_cast<float>(Sum(Product(score_weight, static_cast<double>(s)), t)) + 0.0f;
}
// Return F of bounds of s. A bound may be NaN, which says nothing: as an upper bound it is +inf, as
// a lower bound -inf.
NEARFIELD_HOST_DEVICE inline float FinalUpper(double score_weight, float upper, double t) {
  return FinalScore(score_weight, upper == upper ? upper : -MinusInfinity(), t);
}
NEARFIELD_HOST_DEVICE inline float FinalLower(double score_weight, float lower, double t) {
  return FinalScore(score_weight, lower == lower ? lower : MinusInfinity(), t);
}

// Returns a score such that F(s, t) < threshold for every s below it: a row of a smaller score is
// below the threshold. It is close to the largest such score. Requires: threshold is not NaN.
NEARFIELD_HOST_DEVICE inline float ScoreToReach(double score_weight, double t, float threshold) {
  if (threshold == MinusInfinity()) return threshold;
  // F(guess) is about the float below the threshold. If it is below the threshold, so is F of every
  // smaller score.
  const uint32_t ordered = OrderedBits(threshold + 0.0f);
  const auto below = static_cast<double>(ScoreFromOrderedBits(ordered - 1));
  const auto guess = static_cast<float>((below - t) / score_weight);
  if (FinalUpper(score_weight, guess, t) < threshold) return guess + 0.0f;
  // Binary search: F(-inf) = -inf is below the threshold, F(+inf) = +inf is not.
  uint32_t low = OrderedBits(MinusInfinity());
  uint32_t high = OrderedBits(-MinusInfinity());
  while (high - low > 1) {
    const uint32_t middle = low + (high - low) / 2;
    if (FinalScore(score_weight, ScoreFromOrderedBits(middle), t) < threshold) {
      low = middle;
    } else {
      high = middle;
    }
  }
  return ScoreFromOrderedBits(high) + 0.0f;
}

// Returns a value that TermOf exceeds for no row whose number is in the range. The forms kLinear
// and kClamped are monotonic in the number, because each of their operations is. kHalfLife falls
// with the distance from the origin, except for the error of Exp2, which is less than 2^-50 of the
// term or 2^-1000.
NEARFIELD_HOST_DEVICE inline double TermUpper(const TermParameters& term,
                                              const NumberRange& range) {
  const double of_missing = Product(term.weight, term.missing);
  if (range.lowest > range.highest) return of_missing;
  const double of_lowest = TermOf(term, range.lowest);
  const double of_highest = TermOf(term, range.highest);
  double upper = of_lowest > of_highest ? of_lowest : of_highest;
  if (term.form == TermForm::kHalfLife) {
    const double nearest = TermOf(term, Clamp(term.origin, range.lowest, range.highest));
    if (nearest > upper) upper = nearest;
    const double magnitude = upper < 0.0 ? -upper : upper;
    upper = Sum(Sum(upper, Product(magnitude, 0x1p-50)), 0x1p-1000);
  }
  return range.some_missing && of_missing > upper ? of_missing : upper;
}

}  // namespace nearfield::score
