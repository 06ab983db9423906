// bf16 copies of rows, as corpus/scan_code.cc makes them, with vectors. Sums are taken in another
// order, which the bounds allow. Included once per instruction set.
#if defined(NEARFIELD_ENGINE_CPU_BF16_ENCODE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef NEARFIELD_ENGINE_CPU_BF16_ENCODE_INL_H_
#undef NEARFIELD_ENGINE_CPU_BF16_ENCODE_INL_H_
#else
#define NEARFIELD_ENGINE_CPU_BF16_ENCODE_INL_H_
#endif

#include <cmath>
#include <limits>

#include "engine/cpu/code_kernels.h"
#include "engine/cpu/vector_steps-inl.h"
#include "engine/score/bf16_bound.h"

HWY_BEFORE_NAMESPACE();
namespace nearfield::cpu {
namespace HWY_NAMESPACE {

using TagNarrow = hn::Rebind<float, Tag>;        // as many fp32 as a vector has fp64
using TagNarrowBits = hn::Rebind<int32_t, Tag>;  // and their bits

// score::Bf16CopyBits, in the upper half of each word; the lower is 0.
HWY_INLINE hn::VFromD<TagNarrowBits> Bf16CopyWords(hn::VFromD<TagNarrow> values) {
  const TagNarrowBits words;
  const auto bits = hn::BitCast(words, values);
  const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(words, 1));
  const auto rounded = hn::Add(hn::Add(bits, hn::Set(words, 0x7fff)), odd);
  const auto magnitude = hn::And(rounded, hn::Set(words, 0x7fffffff));
  const auto normal = hn::And(hn::Gt(magnitude, hn::Set(words, 0x007fffff)),
                              hn::Lt(magnitude, hn::Set(words, 0x7f800000)));
  const auto upper = hn::And(rounded, hn::Set(words, static_cast<int32_t>(0xffff0000u)));
  return hn::IfThenElseZero(normal, upper);
}

template <RowType kType>
score::RowBound CopyOneToBf16(const EncodeRows& encode, int32_t r) {
  const int32_t size = PaddedDim(encode.dim);  // that of the copy too
  const std::byte* const row = encode.rows + int64_t{r} * size * BytesPerElement(kType);
  auto* const copy =
      reinterpret_cast<uint16_t*>(encode.codes + int64_t{r} * Bf16Stride(encode.dim));
  const double squared = encode.squares[r];
  const bool cosine = encode.metric == Metric::kCosine;
  const bool divides = cosine && squared > 0.0;
  const Vec norm = hn::Set(kTag, divides ? std::sqrt(squared) : 1.0);
  const hn::Rebind<uint16_t, Tag> halves;
  Vec residual = hn::Zero(kTag);
  Vec copied = hn::Zero(kTag);
  for (int32_t d = 0; d < size; d += kWidth) {
    Vec value = LoadElements<kType>(row, d);
    if (divides) value = hn::Div(value, norm);
    const auto words = Bf16CopyWords(hn::DemoteTo(TagNarrow(), value));
    const Vec rounded = hn::PromoteTo(kTag, hn::BitCast(TagNarrow(), words));
    const Vec left = hn::Sub(value, rounded);
    residual = hn::MulAdd(left, left, residual);
    copied = hn::MulAdd(rounded, rounded, copied);
    const auto bits = hn::And(hn::ShiftRight<16>(words), hn::Set(TagNarrowBits(), 0xffff));
    hn::StoreU(hn::DemoteTo(halves, bits), halves, copy + d);
  }
  if (cosine && squared == 0.0) return {.residual = -std::numeric_limits<float>::infinity()};
  return score::MakeBf16RowBound(hn::GetLane(hn::SumOfLanes(kTag, residual)),
                                 hn::GetLane(hn::SumOfLanes(kTag, copied)),
                                 encode.metric == Metric::kL2 ? squared : 0.0, encode.dim);
}

template <RowType kType>
void CopyAllToBf16(const EncodeRows& encode) {
  for (int32_t r = 0; r < encode.rows_count; ++r) {
    encode.bounds[r] = CopyOneToBf16<kType>(encode, r);
  }
}

void EncodeBf16Rows(const EncodeRows& encode) {
  static_assert(Bf16Stride(1) == 2 * kDimStep, "a copy is padded as the rows are");
  switch (encode.row_type) {
    case RowType::kFloat32:
      return CopyAllToBf16<RowType::kFloat32>(encode);
    case RowType::kFloat16:
      return CopyAllToBf16<RowType::kFloat16>(encode);
    case RowType::kBFloat16:
      return CopyAllToBf16<RowType::kBFloat16>(encode);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace nearfield::cpu
HWY_AFTER_NAMESPACE();

#endif  // include guard per instruction set
