// Finds the rows that may reach the threshold from products of codes: bound::UpperScore, step for
// step. Included once per instruction set.
#if defined(NEARFIELD_ENGINE_CPU_KERNELS_CODE_FILTER_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef NEARFIELD_ENGINE_CPU_KERNELS_CODE_FILTER_INL_H_
#undef NEARFIELD_ENGINE_CPU_KERNELS_CODE_FILTER_INL_H_
#else
#define NEARFIELD_ENGINE_CPU_KERNELS_CODE_FILTER_INL_H_
#endif

#include "engine/cpu/kernels/code_products-inl.h"

HWY_BEFORE_NAMESPACE();
namespace nearfield::cpu {
namespace HWY_NAMESPACE {

using TagF = hn::ScalableTag<float>;
using VecF = hn::VFromD<TagF>;
inline constexpr TagF kTagF;

// The terms of a bound: each a vector over rows or over queries.
struct BoundTerms {
  VecF scale, residual, norm, squared_norm_lower;  // of the row
};
struct QueryTerms {
  VecF of_residual, of_norm, squared_norm_lower;
};

HWY_INLINE VecF Upper(const BoundTerms& row, const QueryTerms& query, VecF product) {
  const VecF slack =
      hn::Add(hn::Mul(query.of_residual, row.residual), hn::Mul(query.of_norm, row.norm));
  const VecF dot = hn::Add(hn::Mul(row.scale, product), slack);
  const VecF rest = hn::Sub(hn::Set(kTagF, 0x1p-140f), query.squared_norm_lower);
  return hn::Add(hn::Sub(dot, row.squared_norm_lower), rest);
}

// Returns a bit per lane, set if the lane is not in `below`; a NaN is not.
HWY_INLINE uint32_t LanesNotIn(hn::MFromD<TagF> below) {
  uint8_t bits[8] = {};  // StoreMaskBits may write 8 bytes
  hn::StoreMaskBits(kTagF, hn::Not(below), bits);
  return kLanes == 8 ? bits[0] : bits[0] | static_cast<uint32_t>(bits[1]) << 8;
}

// Returns bound::CodeProduct of one code: the scale times exact products.
HWY_INLINE VecF Scaled(VecF scale, const int32_t* products) {
  return hn::Mul(scale, hn::ConvertTo(kTagF, hn::LoadU(kTag32, products)));
}

int32_t FilterOne(const OneFilter& filter, int32_t* surviving, float* upper) {
  const bound::QueryBound& q = filter.query;
  const QueryTerms query = {hn::Set(kTagF, q.of_residual), hn::Set(kTagF, q.of_norm),
                            hn::Set(kTagF, q.squared_norm_lower)};
  const VecF first_scale = hn::Set(kTagF, q.first_scale);
  const VecF second_scale = hn::Set(kTagF, q.second_scale);
  const VecF threshold = hn::Set(kTagF, filter.threshold);
  int32_t count = 0;
  int32_t r = 0;
  for (; r + kLanes <= filter.rows_count; r += kLanes) {
    BoundTerms row;
    hn::LoadInterleaved4(kTagF, reinterpret_cast<const float*>(filter.bounds + r), row.scale,
                         row.residual, row.norm, row.squared_norm_lower);
    const VecF product =
        hn::Add(Scaled(first_scale, filter.first + r), Scaled(second_scale, filter.second + r));
    const VecF bound = Upper(row, query, product);
    const auto below = hn::Lt(bound, threshold);
    if (HWY_LIKELY(hn::AllTrue(kTagF, below))) continue;
    uint32_t kept = LanesNotIn(below);
    HWY_ALIGN float bounds[kLanes];
    hn::Store(bound, kTagF, bounds);
    for (; kept != 0; kept &= kept - 1) {
      const int32_t lane = __builtin_ctz(kept);
      surviving[count] = r + lane;
      upper[count++] = bounds[lane];
    }
  }
  for (; r < filter.rows_count; ++r) {
    const float u = bound::UpperScore(filter.bounds[r], q,
                                      bound::CodeProduct(q, filter.first[r], filter.second[r]));
    if (u < filter.threshold) continue;
    surviving[count] = r;
    upper[count++] = u;
  }
  return count;
}

int32_t FilterPanels(const PanelFilter& filter, Survivor* survivors) {
  int32_t count = 0;
  for (int32_t begin = 0; begin < filter.queries_count; begin += kLanes) {
    const QueryTerms query = {hn::LoadU(kTagF, filter.of_residual + begin),
                              hn::LoadU(kTagF, filter.of_norm + begin),
                              hn::LoadU(kTagF, filter.squared_norm_lower + begin)};
    const VecF first_scale = hn::LoadU(kTagF, filter.first_scale + begin);
    const VecF threshold = hn::LoadU(kTagF, filter.threshold + begin);
    const int32_t lanes_here = HWY_MIN(kLanes, filter.queries_count - begin);
    const uint32_t valid = (1u << lanes_here) - 1;
    for (int32_t r = 0; r < filter.rows_count; ++r) {
      const bound::RowBound& b = filter.bounds[r];
      const BoundTerms row = {hn::Set(kTagF, b.scale), hn::Set(kTagF, b.residual),
                              hn::Set(kTagF, b.norm), hn::Set(kTagF, b.squared_norm_lower)};
      const VecF product = Scaled(first_scale, filter.products + int64_t{r} * filter.width + begin);
      const VecF bound = Upper(row, query, product);
      const auto below = hn::Lt(bound, threshold);
      if (HWY_LIKELY(hn::AllTrue(kTagF, below))) continue;
      uint32_t kept = LanesNotIn(below) & valid;
      HWY_ALIGN float bounds[kLanes];
      hn::Store(bound, kTagF, bounds);
      for (; kept != 0; kept &= kept - 1) {
        const int32_t lane = __builtin_ctz(kept);
        survivors[count++] = {r, begin + lane, bounds[lane]};
      }
    }
  }
  return count;
}

}  // namespace HWY_NAMESPACE
}  // namespace nearfield::cpu
HWY_AFTER_NAMESPACE();

#endif  // include guard per instruction set
