// Vectorized encoding, equivalent to int8_code.cc. Sums are added in another order, which the
// bounds allow. Included once per instruction set.
#if defined(NEARFIELD_ENGINE_BOUND_INT8_CODE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef NEARFIELD_ENGINE_BOUND_INT8_CODE_INL_H_
#undef NEARFIELD_ENGINE_BOUND_INT8_CODE_INL_H_
#else
#define NEARFIELD_ENGINE_BOUND_INT8_CODE_INL_H_
#endif

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "engine/bound/query_encoder.h"
#include "engine/bound/rotation-inl.h"

HWY_BEFORE_NAMESPACE();
namespace nearfield::bound {
namespace HWY_NAMESPACE {

// Arrays of values and codes are padded with zeros to whole vectors of codes.
using TagCode = hn::Rebind<int8_t, Tag>;
using TagWord = hn::Rebind<int32_t, Tag>;

// Returns the sum of the squares of values - others, or of values if `others` is null.
inline double Squares(const double* values, const double* others, int64_t size) {
  Vec sums[4] = {hn::Zero(kTag), hn::Zero(kTag), hn::Zero(kTag), hn::Zero(kTag)};
  for (int64_t i = 0; i < size; i += 4 * kWidth) {  // sizes are multiples of a code line
    NEARFIELD_UNROLL
    for (int32_t j = 0; j < 4; ++j) {
      Vec v = hn::Load(kTag, values + i + j * kWidth);
      if (others != nullptr) v = hn::Sub(v, hn::Load(kTag, others + i + j * kWidth));
      sums[j] = hn::MulAdd(v, v, sums[j]);
    }
  }
  const Vec sum = hn::Add(hn::Add(sums[0], sums[1]), hn::Add(sums[2], sums[3]));
  return hn::GetLane(hn::SumOfLanes(kTag, sum));
}

inline double GreatestMagnitude(const double* values, int64_t size) {
  Vec greatest = hn::Zero(kTag);
  for (int64_t i = 0; i < size; i += kWidth) {
    greatest = hn::Max(greatest, hn::Abs(hn::Load(kTag, values + i)));
  }
  return hn::GetLane(hn::MaxOfLanes(kTag, greatest));
}

struct TakenCodes {
  float scale = 0;
  double norm = 0;  // at least the norm of scale * codes
};

// Encodes `values` as codes in units of a scale. Replaces `values` by scale * codes, or by the rest
// (kRest).
template <bool kRest>
TakenCodes TakeCodes(double* values, int64_t size, int8_t* codes) {
  const float scale = CodeScale(GreatestMagnitude(values, size));
  if (!(scale > 0.0f) || !std::isfinite(scale)) {
    std::fill(codes, codes + size, int8_t{0});
    if (!kRest) std::fill(values, values + size, 0.0);
    return {scale, CodeNormUp(scale, 0)};
  }
  const Vec inverse = hn::Set(kTag, 1.0 / static_cast<double>(scale));
  const Vec factor = hn::Set(kTag, static_cast<double>(scale));
  const Vec greatest = hn::Set(kTag, kCodeMax);
  Vec squares = hn::Zero(kTag);  // integers far below 2^53: exact
  for (int64_t i = 0; i < size; i += kWidth) {
    const Vec value = hn::Load(kTag, values + i);
    Vec code = hn::Round(hn::Mul(value, inverse));
    code = hn::Min(hn::Max(code, hn::Neg(greatest)), greatest);
    squares = hn::MulAdd(code, code, squares);
    const Vec stands_for = hn::Mul(factor, code);  // exact
    hn::Store(kRest ? hn::Sub(value, stands_for) : stands_for, kTag, values + i);
    hn::StoreU(hn::DemoteTo(TagCode(), hn::DemoteTo(TagWord(), code)), TagCode(), codes + i);
  }
  const auto sum = static_cast<int64_t>(hn::GetLane(hn::SumOfLanes(kTag, squares)));
  return {scale, CodeNormUp(scale, sum)};
}

inline void Divide(double* values, int64_t size, double divisor) {
  const Vec by = hn::Set(kTag, divisor);
  for (int64_t i = 0; i < size; i += kWidth) {
    hn::Store(hn::Div(hn::Load(kTag, values + i), by), kTag, values + i);
  }
}

inline QueryBounds EncodeQueryCodes(const EncodeQueryArgs& args) {
  const Rotation& rotation = *args.rotation;
  if (rotation.block() < kRotationBlockMin) return EncodeQueryPlain(args);
  const auto dim = static_cast<int32_t>(rotation.dimension());
  const int64_t size = CodeStride(dim);
  double* const values = args.scratch;
  auto* const codes = reinterpret_cast<int8_t*>(args.scratch + size);  // [size], padded
  std::fill(std::copy(args.query, args.query + dim, values), values + size, 0.0);
  const double squares = Squares(values, nullptr, size);
  double of_query = squares;
  if (args.metric == Metric::kCosine) {
    Divide(values, size, std::sqrt(squares));
    of_query = Squares(values, nullptr, size);
  }
  const auto norm = [&] { return NormUp(Squares(values, nullptr, size), dim); };
  QueryNorms norms = {.query = NormUp(of_query, dim)};
  Rotate(rotation, rotation.query_shift(), values);
  const TakenCodes of_first = TakeCodes<true>(values, size, codes);
  std::copy(codes, codes + dim, args.first);
  norms.without_first = norm();
  norms.rest = norms.without_first;
  const bool l2 = args.metric == Metric::kL2;
  QueryBounds bounds;
  bounds.first_only =
      MakeQueryBound(of_first.scale, 0.0f, norms, rotation.RelativeError(), l2, squares, dim);
  const TakenCodes of_second = TakeCodes<true>(values, size, codes);
  std::copy(codes, codes + dim, args.second);
  norms.rest = norm();
  bounds.both = MakeQueryBound(of_first.scale, of_second.scale, norms, rotation.RelativeError(), l2,
                               squares, dim);
  return bounds;
}

}  // namespace HWY_NAMESPACE
}  // namespace nearfield::bound
HWY_AFTER_NAMESPACE();

#endif  // include guard per instruction set
