// Rotation with vectors: the same additions in another order, so its error bound holds.
// Included once per instruction set.
#if defined(NEARFIELD_ENGINE_BOUND_ROTATION_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef NEARFIELD_ENGINE_BOUND_ROTATION_INL_H_
#undef NEARFIELD_ENGINE_BOUND_ROTATION_INL_H_
#else
#define NEARFIELD_ENGINE_BOUND_ROTATION_INL_H_
#endif

#include <cmath>

#include "engine/bound/rotation.h"
#include "engine/bound/vector_tags-inl.h"

HWY_BEFORE_NAMESPACE();
namespace nearfield::bound {
namespace HWY_NAMESPACE {

// Smaller blocks are rotated without vectors.
inline constexpr int64_t kRotationBlockMin = 2 * kWidth;

// Negates the lanes whose index has the bit kHalf.
template <int32_t kHalf>
HWY_INLINE Vec NegateUpper(Vec v) {
  HWY_ALIGN double signs[kWidth];
  NEARFIELD_UNROLL
  for (int32_t l = 0; l < kWidth; ++l) signs[l] = (l & kHalf) != 0 ? -0.0 : 0.0;
  return hn::Xor(v, hn::Load(kTag, signs));
}

// Runs the levels inside one vector: lane l and its partner become their sum and difference.
HWY_INLINE Vec InsideVector(Vec v) {
  v = hn::Add(hn::Reverse2(kTag, v), NegateUpper<1>(v));
  v = hn::Add(hn::SwapAdjacentBlocks(v), NegateUpper<2>(v));
#if HWY_TARGET != HWY_AVX2
  v = hn::Add(hn::ConcatLowerUpper(kTag, v, v), NegateUpper<4>(v));
#endif
  return v;
}

// Runs kLevels levels in one pass, from strides `stride` to stride << (kLevels - 1). The first pass
// also runs the levels inside vectors; the last one scales.
template <int32_t kLevels>
void Levels(double* values, int64_t size, int64_t stride, double scale) {
  constexpr int32_t kVectors = 1 << kLevels;
  const Vec factor = hn::Set(kTag, scale);
  const bool first = stride == kWidth;
  const bool last = (stride << kLevels) == size;
  for (int64_t block = 0; block < size; block += stride << kLevels) {
    for (int64_t i = block; i < block + stride; i += kWidth) {
      Vec v[kVectors];
      NEARFIELD_UNROLL
      for (int32_t j = 0; j < kVectors; ++j) {
        v[j] = hn::LoadU(kTag, values + i + j * stride);
        if (first) v[j] = InsideVector(v[j]);
      }
      NEARFIELD_UNROLL
      for (int32_t level = 0; level < kLevels; ++level) {
        NEARFIELD_UNROLL
        for (int32_t j = 0; j < kVectors; ++j) {
          const int32_t other = j | 1 << level;
          if (other == j) continue;
          const Vec a = v[j];
          const Vec b = v[other];
          v[j] = hn::Add(a, b);
          v[other] = hn::Sub(a, b);
        }
      }
      NEARFIELD_UNROLL
      for (int32_t j = 0; j < kVectors; ++j) {
        if (last) v[j] = hn::Mul(v[j], factor);
        hn::StoreU(v[j], kTag, values + i + j * stride);
      }
    }
  }
}

// Applies H to `size` values (a power of two, at least kRotationBlockMin) and scales them.
inline void Hadamard(double* values, int64_t size, double scale) {
  constexpr int32_t kLevelsMax = kWidth == 8 ? 3 : 2;  // limited by the registers
  int64_t stride = kWidth;
  while (stride < size) {
    const int32_t levels =
        HWY_MIN(kLevelsMax, __builtin_ctzll(static_cast<uint64_t>(size / stride)));
    if (levels == 1) Levels<1>(values, size, stride, scale);
    if (levels == 2) Levels<2>(values, size, stride, scale);
    if (levels == 3) Levels<kLevelsMax>(values, size, stride, scale);
    stride <<= levels;
  }
}

// Multiplies values by signs. Requires: both arrays have room for whole vectors.
inline void ApplySigns(const double* signs, int64_t size, double* values) {
  int64_t i = 0;
  for (; i + kWidth <= size; i += kWidth) {
    hn::StoreU(hn::Mul(hn::LoadU(kTag, signs + i), hn::LoadU(kTag, values + i)), kTag, values + i);
  }
  for (; i < size; ++i) values[i] *= signs[i];
}

// Rotates a row (shift: row_shift) or a query (query_shift), by Rr or Rq of rotation.h.
inline void Rotate(const Rotation& rotation, int shift, double* values) {
  const double scale = std::ldexp(1.0, -shift);
  const int64_t dim = rotation.dimension();
  const int64_t block = rotation.block();
  ApplySigns(rotation.first_signs().data(), dim, values);
  Hadamard(values, block, scale);
  ApplySigns(rotation.second_signs().data(), dim, values);
  Hadamard(values + dim - block, block, scale);
}

// Applies Rq^T.
inline void BringBack(const Rotation& rotation, double* values) {
  const double scale = std::ldexp(1.0, -rotation.query_shift());
  const int64_t dim = rotation.dimension();
  const int64_t block = rotation.block();
  Hadamard(values + dim - block, block, scale);
  ApplySigns(rotation.second_signs().data(), dim, values);
  Hadamard(values, block, scale);
  ApplySigns(rotation.first_signs().data(), dim, values);
}

}  // namespace HWY_NAMESPACE
}  // namespace nearfield::bound
HWY_AFTER_NAMESPACE();

#endif  // include guard per instruction set
