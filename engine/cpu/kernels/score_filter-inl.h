// Finds the rows whose sums may reach the threshold. Included once per instruction set.
#if defined(NEARFIELD_ENGINE_CPU_KERNELS_SCORE_FILTER_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef NEARFIELD_ENGINE_CPU_KERNELS_SCORE_FILTER_INL_H_
#undef NEARFIELD_ENGINE_CPU_KERNELS_SCORE_FILTER_INL_H_
#else
#define NEARFIELD_ENGINE_CPU_KERNELS_SCORE_FILTER_INL_H_
#endif

#include "engine/cpu/kernels/vector_steps-inl.h"

HWY_BEFORE_NAMESPACE();
namespace nearfield::cpu {
namespace HWY_NAMESPACE {

// Uses the score's own operations in the same order, except for the clamp and the sign of zero,
// which the caller allows for. Under cosine a zero row gives NaN. It scores -inf, and !(NaN < min)
// keeps it.
template <Metric kMetric>
int32_t FilterRows(const ScoreFilter& filter, int32_t* surviving) {
  const hn::Rebind<float, Tag> as_float;
  const auto score_min = hn::Set(as_float, filter.score_min);
  const Vec query_root = hn::Set(kTag, filter.query_root);
  int32_t count = 0;
  for (int32_t r = 0; r < filter.rows_count; r += kWidth) {
    Vec value = hn::LoadU(kTag, filter.sums + r);
    if constexpr (kMetric == Metric::kCosine) {
      value = hn::Div(value, hn::Mul(query_root, hn::LoadU(kTag, filter.row_roots + r)));
    }
    if constexpr (kMetric == Metric::kL2) value = hn::Neg(value);
    const auto below = hn::Lt(hn::DemoteTo(as_float, value), score_min);
    if (hn::AllTrue(as_float, below)) continue;
    uint8_t below_bits[8] = {};  // StoreMaskBits may write 8 bytes
    hn::StoreMaskBits(as_float, below, below_bits);
    uint32_t kept = ~static_cast<uint32_t>(below_bits[0]) & ((1u << kWidth) - 1);
    for (; kept != 0; kept &= kept - 1) {
      const int32_t row = r + __builtin_ctz(kept);
      if (row < filter.rows_count) surviving[count++] = row;
    }
  }
  return count;
}

int32_t Filter(const ScoreFilter& filter, int32_t* surviving) {
  switch (filter.metric) {
    case Metric::kDot: return FilterRows<Metric::kDot>(filter, surviving);
    case Metric::kCosine: return FilterRows<Metric::kCosine>(filter, surviving);
    case Metric::kL2: return FilterRows<Metric::kL2>(filter, surviving);
  }
  return 0;
}

}  // namespace HWY_NAMESPACE
}  // namespace nearfield::cpu
HWY_AFTER_NAMESPACE();

#endif  // include guard per instruction set
