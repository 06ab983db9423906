// Vectorized encoding of stored rows, equivalent to EncodeRow of bound/int8_code.cc. Included once
// per instruction set.
#if defined(NEARFIELD_ENGINE_CPU_KERNELS_ROW_ENCODE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef NEARFIELD_ENGINE_CPU_KERNELS_ROW_ENCODE_INL_H_
#undef NEARFIELD_ENGINE_CPU_KERNELS_ROW_ENCODE_INL_H_
#else
#define NEARFIELD_ENGINE_CPU_KERNELS_ROW_ENCODE_INL_H_
#endif

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "engine/bound/int8_code-inl.h"
#include "engine/cpu/kernels/code_kernels.h"
#include "engine/cpu/kernels/vector_steps-inl.h"

HWY_BEFORE_NAMESPACE();
namespace nearfield::cpu {
namespace HWY_NAMESPACE {

namespace encode = bound::HWY_NAMESPACE;

template <RowType kType>
bound::RowBound EncodeOne(const EncodeRows& args, int32_t r) {
  const bound::Rotation& rotation = *args.rotation;
  const auto dim = static_cast<int32_t>(rotation.dimension());
  const int64_t size = CodeStride(dim);
  const std::byte* const row = args.rows + int64_t{r} * PaddedDim(dim) * BytesPerElement(kType);
  double* const values = args.scratch;
  double* const work = values + size;
  for (int32_t d = 0; d < PaddedDim(dim); d += kWidth) {
    hn::Store(LoadElements<kType>(row, d), kTag, values + d);
  }
  std::fill(values + PaddedDim(dim), values + size, 0.0);
  const double squared = args.squares[r];
  const bool cosine = args.metric == Metric::kCosine;
  if (cosine && squared > 0.0) encode::Divide(values, PaddedDim(dim), std::sqrt(squared));
  std::memcpy(work, values, static_cast<size_t>(size) * sizeof(double));
  encode::Rotate(rotation, rotation.row_shift(), work);
  auto* const codes = reinterpret_cast<int8_t*>(args.codes + r * size);
  const encode::TakenCodes taken = encode::TakeCodes<false>(work, size, codes);
  const hn::ScalableTag<int8_t> bytes;
  const auto bias = hn::Set(bytes, static_cast<int8_t>(kCodeBias));
  for (int64_t i = 0; i < size; i += static_cast<int64_t>(hn::Lanes(bytes))) {
    hn::Store(hn::Xor(hn::Load(bytes, codes + i), bias), bytes, codes + i);  // adds the bias
  }
  if (cosine && squared == 0.0) return {.residual = -std::numeric_limits<float>::infinity()};
  // Compute the residual in the space of the row: this assumes nothing about the rotation.
  encode::BringBack(rotation, work);
  return bound::MakeRowBound(taken.scale, encode::Squares(values, work, size), taken.norm,
                             rotation.RelativeError(), args.metric == Metric::kL2 ? squared : 0.0,
                             dim);
}

template <RowType kType>
void EncodeAll(const EncodeRows& args) {
  for (int32_t r = 0; r < args.rows_count; ++r) {
    args.bounds[r] = EncodeOne<kType>(args, r);
  }
}

void EncodeRowsOf(const EncodeRows& args) {
  if (args.rotation->block() < encode::kRotationBlockMin) {
    return PortableCodeKernels().encode_rows(args);
  }
  switch (args.row_type) {
    case RowType::kFloat32: return EncodeAll<RowType::kFloat32>(args);
    case RowType::kFloat16: return EncodeAll<RowType::kFloat16>(args);
    case RowType::kBFloat16: return EncodeAll<RowType::kBFloat16>(args);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace nearfield::cpu
HWY_AFTER_NAMESPACE();

#endif  // include guard per instruction set
