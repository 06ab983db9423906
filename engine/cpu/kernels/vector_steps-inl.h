// Vector building blocks of all kernels: exact widening, one step of a sum, the canonical tree.
// Included once per instruction set.
#if defined(NEARFIELD_ENGINE_CPU_KERNELS_VECTOR_STEPS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef NEARFIELD_ENGINE_CPU_KERNELS_VECTOR_STEPS_INL_H_
#undef NEARFIELD_ENGINE_CPU_KERNELS_VECTOR_STEPS_INL_H_
#else
#define NEARFIELD_ENGINE_CPU_KERNELS_VECTOR_STEPS_INL_H_
#endif

#include <cstddef>
#include <cstdint>

#include "engine/bound/vector_tags-inl.h"
#include "engine/cpu/kernels/scan_kernels.h"

HWY_BEFORE_NAMESPACE();
namespace nearfield::cpu {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using bound::HWY_NAMESPACE::kTag;
using bound::HWY_NAMESPACE::kWidth;
using bound::HWY_NAMESPACE::Tag;
using bound::HWY_NAMESPACE::Vec;
inline constexpr int32_t kParts = kDimStep / kWidth;  // vectors that hold the 32 accumulators

// Returns the kWidth elements that begin at `index`, widened exactly.
template <RowType kType>
HWY_INLINE Vec LoadElements(const std::byte* row, int32_t index) {
  const hn::Rebind<float, Tag> as_float;
  if constexpr (kType == RowType::kFloat32) {
    return hn::PromoteTo(kTag, hn::Load(as_float, reinterpret_cast<const float*>(row) + index));
  } else if constexpr (kType == RowType::kFloat16) {
    const hn::Rebind<hwy::float16_t, Tag> as_half;
    const auto* halves = reinterpret_cast<const hwy::float16_t*>(row);
    return hn::PromoteTo(kTag, hn::PromoteTo(as_float, hn::Load(as_half, halves + index)));
  } else {
    const hn::Rebind<hwy::bfloat16_t, Tag> as_bfloat;
    const auto* bfloats = reinterpret_cast<const hwy::bfloat16_t*>(row);
    return hn::PromoteTo(kTag, hn::PromoteTo(as_float, hn::Load(as_bfloat, bfloats + index)));
  }
}

// Computes DotStep or L2Step of score.h for kWidth lanes. MulAdd is fused on these instruction
// sets.
template <SumKind kKind>
HWY_INLINE Vec Step(Vec query, Vec row, Vec sum) {
  if constexpr (kKind == SumKind::kProduct) {
    return hn::MulAdd(query, row, sum);
  } else {
    const Vec t = hn::Sub(query, row);
    return hn::MulAdd(t, t, sum);
  }
}

// Reduces the parts to one vector: lane l of the result is a[l] after the steps h = 16 .. kWidth.
HWY_INLINE Vec ReduceParts(const Vec (&parts)[kParts]) {
  if constexpr (kParts == 4) {
    return hn::Add(hn::Add(parts[0], parts[2]), hn::Add(parts[1], parts[3]));
  } else {
    static_assert(kParts == 8 || kParts == 4);
    const Vec even = hn::Add(hn::Add(parts[0], parts[4]), hn::Add(parts[2], parts[6]));
    const Vec odd = hn::Add(hn::Add(parts[1], parts[5]), hn::Add(parts[3], parts[7]));
    return hn::Add(even, odd);
  }
}

#if HWY_TARGET == HWY_AVX2
HWY_INLINE Vec HalvesAdded(Vec a, Vec b) {
  return hn::Add(hn::ConcatLowerLower(kTag, b, a), hn::ConcatUpperUpper(kTag, b, a));
}

// Runs the rest of the tree (h = 2, 1) for kWidth sums together: lane i of the result is the sum of
// v[i].
HWY_INLINE Vec ReduceLanes(const Vec (&v)[kWidth]) {
  const Vec low = HalvesAdded(v[0], v[2]);
  const Vec high = HalvesAdded(v[1], v[3]);
  return hn::Add(hn::InterleaveLower(kTag, low, high), hn::InterleaveUpper(kTag, low, high));
}
#else
// Runs step h = 4 for two sums: returns [a0+a4 .. a3+a7, b0+b4 .. b3+b7].
HWY_INLINE Vec HalvesAdded(Vec a, Vec b) {
  return hn::Add(hn::ConcatLowerLower(kTag, b, a), hn::ConcatUpperUpper(kTag, b, a));
}

// Runs step h = 2 for four sums: returns blocks of a, c, b, d. ab and cd come from HalvesAdded.
HWY_INLINE Vec QuartersAdded(Vec ab, Vec cd) {
  const Vec straight = hn::OddEvenBlocks(cd, ab);
  const Vec crossed = hn::OddEvenBlocks(ab, cd);
  return hn::Add(straight, hn::SwapAdjacentBlocks(crossed));
}

// Runs the rest of the tree (h = 4, 2, 1) for kWidth sums together: lane i of the result is the sum
// of v[i].
HWY_INLINE Vec ReduceLanes(const Vec (&v)[kWidth]) {
  const Vec even = QuartersAdded(HalvesAdded(v[0], v[4]), HalvesAdded(v[2], v[6]));
  const Vec odd = QuartersAdded(HalvesAdded(v[1], v[5]), HalvesAdded(v[3], v[7]));
  return hn::Add(hn::InterleaveLower(kTag, even, odd), hn::InterleaveUpper(kTag, even, odd));
}
#endif

}  // namespace HWY_NAMESPACE
}  // namespace nearfield::cpu
HWY_AFTER_NAMESPACE();

#endif  // include guard per instruction set
