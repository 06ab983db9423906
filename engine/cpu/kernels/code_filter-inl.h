// Finds the rows that may reach the threshold from products of codes: bound::UpperScore, step for
// step. Included once per instruction set.
#if defined(NEARFIELD_ENGINE_CPU_KERNELS_CODE_FILTER_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef NEARFIELD_ENGINE_CPU_KERNELS_CODE_FILTER_INL_H_
#undef NEARFIELD_ENGINE_CPU_KERNELS_CODE_FILTER_INL_H_
#else
#define NEARFIELD_ENGINE_CPU_KERNELS_CODE_FILTER_INL_H_
#endif

#include <limits>

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

// Returns the terms that give the largest bound of any of the rows for the same scaled product.
HWY_INLINE BoundTerms LargestTerms(const bound::RowBound* bounds, int32_t rows_count) {
  constexpr int32_t kRows = kLanes / 4;  // in a vector
  const auto load = [&](int32_t r) HWY_ATTR {
    return hn::LoadU(kTagF, reinterpret_cast<const float*>(bounds + r));
  };
  VecF least = load(rows_count - kRows);
  VecF largest = least;
  for (int32_t r = 0; r + kRows < rows_count; r += kRows) {
    const VecF terms = load(r);
    least = hn::Min(least, terms);
    largest = hn::Max(largest, terms);
  }
  least = hn::Min(least, hn::SwapAdjacentBlocks(least));
  least = hn::Min(least, hn::ConcatLowerUpper(kTagF, least, least));
  largest = hn::Max(largest, hn::SwapAdjacentBlocks(largest));
  largest = hn::Max(largest, hn::ConcatLowerUpper(kTagF, largest, largest));
  // A residual of -inf is of a row that scores -inf: its bound may be NaN.
  const VecF infinity = hn::Set(kTagF, std::numeric_limits<float>::infinity());
  const VecF residual = hn::IfThenElse(hn::Eq(hn::Broadcast<1>(least), hn::Neg(infinity)), infinity,
                                       hn::Broadcast<1>(largest));
  return {hn::Set(kTagF, 1.0f), residual, hn::Broadcast<2>(largest), hn::Broadcast<3>(least)};
}

// Returns for each query a scaled product (scale of the row times product) with which no bound of
// the rows reaches the threshold. Nor does it with a smaller one: every step of a bound is
// monotonic in the scaled product and in the terms of the row, rounding included, so the bound of
// the largest terms proves it. Returns -inf where that proves nothing.
HWY_INLINE VecF ScaledProductBelow(const BoundTerms& largest, const QueryTerms& query,
                                   VecF threshold) {
  const VecF slack =
      hn::Add(hn::Mul(query.of_residual, largest.residual), hn::Mul(query.of_norm, largest.norm));
  const VecF squares = hn::Add(query.squared_norm_lower, largest.squared_norm_lower);
  // Smaller than the difference by more than the rounding errors. Lanes without a query have an
  // infinite threshold.
  const VecF finite = hn::Min(threshold, hn::Set(kTagF, 0x1p100f));
  const VecF error =
      hn::Mul(hn::Add(hn::Add(hn::Abs(finite), squares), slack), hn::Set(kTagF, 0x1p-20f));
  const VecF product = hn::Sub(hn::Sub(hn::Add(finite, squares), slack), error);
  const auto zero = hn::Zero(kTagF);
  const auto proven =
      hn::And(hn::Lt(Upper(largest, query, product), threshold),
              hn::And(hn::Ge(query.of_residual, zero), hn::Ge(query.of_norm, zero)));
  return hn::IfThenElse(proven, product, hn::Set(kTagF, -std::numeric_limits<float>::infinity()));
}

int32_t FilterPanels(const PanelFilter& filter, Survivor* survivors) {
  int32_t count = 0;
  const bool few = filter.rows_count < kLanes / 4;
  const BoundTerms largest = few ? BoundTerms() : LargestTerms(filter.bounds, filter.rows_count);
  for (int32_t begin = 0; begin < filter.queries_count; begin += kLanes) {
    const QueryTerms query = {hn::LoadU(kTagF, filter.of_residual + begin),
                              hn::LoadU(kTagF, filter.of_norm + begin),
                              hn::LoadU(kTagF, filter.squared_norm_lower + begin)};
    const VecF first_scale = hn::LoadU(kTagF, filter.first_scale + begin);
    const VecF threshold = hn::LoadU(kTagF, filter.threshold + begin);
    const VecF below = few ? hn::Set(kTagF, -std::numeric_limits<float>::infinity())
                           : ScaledProductBelow(largest, query, threshold);
    const int32_t lanes_here = HWY_MIN(kLanes, filter.queries_count - begin);
    const uint32_t valid = (1u << lanes_here) - 1;
    const int32_t* products = filter.products + begin;
    for (int32_t r = 0; r < filter.rows_count; ++r, products += filter.width) {
      const bound::RowBound& b = filter.bounds[r];
      const VecF scale = hn::Set(kTagF, b.scale);
      const VecF product = Scaled(first_scale, products);
      if (HWY_LIKELY(hn::AllTrue(kTagF, hn::Lt(hn::Mul(scale, product), below)))) continue;
      const BoundTerms row = {scale, hn::Set(kTagF, b.residual), hn::Set(kTagF, b.norm),
                              hn::Set(kTagF, b.squared_norm_lower)};
      const VecF bound = Upper(row, query, product);
      uint32_t kept = LanesNotIn(hn::Lt(bound, threshold)) & valid;
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
