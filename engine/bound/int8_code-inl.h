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
template <typename Code>
using TagCode = hn::Rebind<Code, Tag>;
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

// Encodes `values` as codes, at most code_max, in units of a scale. Replaces `values` by scale *
// codes, or by the rest (kRest).
template <bool kRest, typename Code>
TakenCodes TakeCodes(double* values, int64_t size, Code* codes, double code_max = kCodeMax) {
  const float scale = CodeScale(GreatestMagnitude(values, size), code_max);
  if (!(scale > 0.0f) || !std::isfinite(scale)) {
    std::fill(codes, codes + size, Code{0});
    if (!kRest) std::fill(values, values + size, 0.0);
    return {scale, CodeNormUp(scale, 0)};
  }
  const Vec inverse = hn::Set(kTag, 1.0 / static_cast<double>(scale));
  const Vec factor = hn::Set(kTag, static_cast<double>(scale));
  const Vec greatest = hn::Set(kTag, code_max);
  Vec squares = hn::Zero(kTag);  // integers far below 2^53: exact
  for (int64_t i = 0; i < size; i += kWidth) {
    const Vec value = hn::Load(kTag, values + i);
    Vec code = hn::Round(hn::Mul(value, inverse));
    code = hn::Min(hn::Max(code, hn::Neg(greatest)), greatest);
    squares = hn::MulAdd(code, code, squares);
    const Vec stands_for = hn::Mul(factor, code);  // exact
    hn::Store(kRest ? hn::Sub(value, stands_for) : stands_for, kTag, values + i);
    const TagCode<Code> tag;
    hn::StoreU(hn::DemoteTo(tag, hn::DemoteTo(TagWord(), code)), tag, codes + i);
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
  void* const codes = args.scratch + size;  // [size], padded
  double* const rotated = args.scratch + 2 * size;
  std::fill(std::copy(args.query, args.query + dim, values), values + size, 0.0);
  const double squares = Squares(values, nullptr, size);
  double of_query = squares;
  if (args.metric == Metric::kCosine) {
    Divide(values, size, std::sqrt(squares));
    of_query = Squares(values, nullptr, size);
  }
  QueryNorms norms = {.query = NormUp(of_query, dim)};
  Rotate(rotation, rotation.query_shift(), values);
  const bool twice = args.first != nullptr && args.whole != nullptr;
  if (twice) std::copy(values, values + size, rotated);
  // Takes a code of `values`, and sets the norm of the rest.
  const auto take = [&](auto* out, double code_max) {
    auto* const padded = static_cast<decltype(out)>(codes);
    const TakenCodes taken = TakeCodes<true>(values, size, padded, code_max);
    std::copy(padded, padded + dim, out);
    norms.rest = NormUp(Squares(values, nullptr, size), dim);
    return taken.scale;
  };
  const auto bound_with = [&](float first_scale, float second_scale) {
    return MakeQueryBound(first_scale, second_scale, norms, rotation.RelativeError(),
                          args.metric == Metric::kL2, squares, dim);
  };
  QueryBounds bounds;
  float first_scale = 0.0f;
  if (args.first != nullptr) {
    first_scale = take(args.first, kCodeMax);
    norms.without_first = norms.rest;
    bounds.first_only = bound_with(first_scale, 0.0f);
  }
  if (args.whole == nullptr) {
    const float second_scale = take(args.second, kCodeMax);
    bounds.both = bound_with(first_scale, second_scale);
    return bounds;
  }
  if (twice) std::copy(rotated, rotated + size, values);
  const float scale = take(args.whole, args.whole_max);
  norms.without_first = norms.rest;
  bounds.both = bound_with(scale, 0.0f);
  return bounds;
}

}  // namespace HWY_NAMESPACE
}  // namespace nearfield::bound
HWY_AFTER_NAMESPACE();

#endif  // include guard per instruction set
