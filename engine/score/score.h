// The canonical score. Every score that nearfield returns is computed by these functions, on the
// host and on the device. Contract: proto/nearfield/v1/retrieval.proto, "Score". Inputs are finite.
//
// S(q, x): 32 fp64 accumulators, initially +0.0. Dimension d adds to accumulator d mod 32, in
// increasing order of d; then for h = 16, 8, 4, 2, 1: a[l] += a[l + h] for l < h; S = a[0]. Vectors
// padded with zeros give the same bits.
#pragma once

#include <cmath>
#include <cstdint>

#include "engine/score/host_device.h"

namespace nearfield::score {

inline constexpr int kAccumulators = 32;

// Adds one dimension of a dot product. The product of two fp32 values is exact in fp64, so fusing
// changes no bit.
NEARFIELD_HOST_DEVICE inline double DotStep(double query, double row, double sum) {
#ifdef __CUDA_ARCH__
  return __fma_rn(query, row, sum);
#else
  return sum + query * row;
#endif
}

// Adds one dimension of a squared distance. t * t is not exact: the fused form is the definition.
NEARFIELD_HOST_DEVICE inline double L2Step(double query, double row, double sum) {
#ifdef __CUDA_ARCH__
  const double t = __dsub_rn(query, row);
  return __fma_rn(t, t, sum);
#else
  const double t = query - row;
  return std::fma(t, t, sum);
#endif
}

// Sums the 32 accumulators as a tree; overwrites them.
NEARFIELD_HOST_DEVICE inline double ReduceAccumulators(double* sums) {
  for (int half = kAccumulators / 2; half >= 1; half /= 2) {
    for (int lane = 0; lane < half; ++lane) sums[lane] += sums[lane + half];
  }
  return sums[0];
}

NEARFIELD_HOST_DEVICE inline float FloatFromBits(uint32_t bits) {
#ifdef __CUDA_ARCH__
  return __uint_as_float(bits);
#else
  float value;
  __builtin_memcpy(&value, &bits, sizeof(value));
  return value;
#endif
}

NEARFIELD_HOST_DEVICE inline uint32_t BitsFromFloat(float value) {
#ifdef __CUDA_ARCH__
  return __float_as_uint(value);
#else
  uint32_t bits;
  __builtin_memcpy(&bits, &value, sizeof(bits));
  return bits;
#endif
}

NEARFIELD_HOST_DEVICE inline float MinusInfinity() { return FloatFromBits(0xff800000u); }

// Returns the dot score: S rounded to nearest even; +0.0f turns -0 into +0. May be +-inf.
NEARFIELD_HOST_DEVICE inline float DotScore(double s) { return static_cast<float>(s) + 0.0f; }

// Returns the cosine score: S(q,x) / (sqrt(S(q,q)) * sqrt(S(x,x))), clamped to [-1, 1]; exactly
// -inf for a zero row. Requires: S(q,q) > 0.
NEARFIELD_HOST_DEVICE inline float CosineScore(double s, double query_squared, double row_squared) {
  if (row_squared == 0.0) return MinusInfinity();
#ifdef __CUDA_ARCH__
  const double norms = __dmul_rn(__dsqrt_rn(query_squared), __dsqrt_rn(row_squared));
  const float score = static_cast<float>(__ddiv_rn(s, norms)) + 0.0f;
#else
  const double norms = std::sqrt(query_squared) * std::sqrt(row_squared);
  const float score = static_cast<float>(s / norms) + 0.0f;
#endif
  return score > 1.0f ? 1.0f : (score < -1.0f ? -1.0f : score);
}

// Returns the L2 score: the negated squared distance, so that higher is better; +0 for equal
// vectors. May be -inf.
NEARFIELD_HOST_DEVICE inline float L2Score(double squared_distance) {
  return 0.0f - static_cast<float>(squared_distance);
}

}  // namespace nearfield::score
