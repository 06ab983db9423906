// Products of bf16 copies with fp32 queries, summed in fp32: a word of a row is two elements, one
// in its upper half, where an fp32 number of the same value has it, one in its lower. One query is
// bound by memory; of many, a lane is a query, and a row's elements are spread over all lanes.
// Included once per instruction set.
#if defined(NEARFIELD_ENGINE_CPU_BF16_SCAN_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef NEARFIELD_ENGINE_CPU_BF16_SCAN_INL_H_
#undef NEARFIELD_ENGINE_CPU_BF16_SCAN_INL_H_
#else
#define NEARFIELD_ENGINE_CPU_BF16_SCAN_INL_H_
#endif

#include <algorithm>
#include <cstring>

#include "engine/cpu/code_filter-inl.h"

HWY_BEFORE_NAMESPACE();
namespace nearfield::cpu {
namespace HWY_NAMESPACE {

// Elements of even and of odd index of a vector of words.
HWY_INLINE VecF EvenElements(Vec32 words) { return hn::BitCast(kTagF, hn::ShiftLeft<16>(words)); }
HWY_INLINE VecF OddElements(Vec32 words) {
  return hn::BitCast(kTagF, hn::And(words, hn::Set(kTag32, static_cast<int32_t>(0xffff0000u))));
}

// A packed query has fp32 vectors in pairs: what meets the even elements of a vector of words, then
// what meets the odd ones.
inline constexpr int32_t kWordElements = 2;
inline constexpr int32_t kStepElements = kWordElements * kLanes;

inline int32_t RowWords(int32_t dim) { return (dim + kWordElements - 1) / kWordElements; }
inline int64_t Bf16OneBytes(int32_t dim) { return int64_t{2} * Bf16Stride(dim); }
inline int64_t Bf16PanelBytes(int32_t dim) {
  return int64_t{RowWords(dim)} * kWordElements * kVectorBytes;
}

void PackBf16One(const void* first, const void* /*second*/, int32_t dim, std::byte* packed) {
  std::memset(packed, 0, static_cast<size_t>(Bf16OneBytes(dim)));
  const auto* const query = static_cast<const float*>(first);
  auto* const out = reinterpret_cast<float*>(packed);
  for (int32_t d = 0; d < dim; ++d) {
    const int32_t in_step = d % kStepElements;
    out[d - in_step + in_step % kWordElements * kLanes + in_step / kWordElements] = query[d];
  }
}

void PackBf16Panel(const void* queries, int64_t stride, int32_t count, int32_t dim,
                   std::byte* packed) {
  std::memset(packed, 0, static_cast<size_t>(Bf16PanelBytes(dim)));
  auto* const out = reinterpret_cast<float*>(packed);
  for (int32_t q = 0; q < count; ++q) {
    const float* const query = static_cast<const float*>(queries) + q * stride;
    for (int32_t d = 0; d < dim; ++d) out[int64_t{d} * kLanes + q] = query[d];
  }
}

template <int32_t kRows>
HWY_INLINE void ScanBf16Rows(const uint8_t* row, int32_t stride, const std::byte* packed,
                             float* sums) {
  VecF even[kRows];
  VecF odd[kRows];
  NEARFIELD_UNROLL
  for (int32_t r = 0; r < kRows; ++r) even[r] = odd[r] = hn::Zero(kTagF);
  const auto* query = reinterpret_cast<const float*>(packed);
  for (int32_t at = 0; at < stride; at += kVectorBytes, query += kStepElements) {
    const VecF query_even = hn::Load(kTagF, query);
    const VecF query_odd = hn::Load(kTagF, query + kLanes);
    NEARFIELD_UNROLL
    for (int32_t r = 0; r < kRows; ++r) {
      const uint8_t* const place = row + int64_t{r} * stride + at;
      __builtin_prefetch(place + kCodesAhead, 0, 2);
      const Vec32 words = hn::Load(kTag32, reinterpret_cast<const int32_t*>(place));
      even[r] = hn::MulAdd(EvenElements(words), query_even, even[r]);
      odd[r] = hn::MulAdd(OddElements(words), query_odd, odd[r]);
    }
  }
  NEARFIELD_UNROLL
  for (int32_t r = 0; r < kRows; ++r) {
    sums[r] = hn::GetLane(hn::SumOfLanes(kTagF, hn::Add(even[r], odd[r])));
  }
}

void ScanBf16One(const CodeTile& tile, const std::byte* packed, void* out, void* /*second*/) {
  constexpr int32_t kRows = HWY_TARGET == HWY_AVX2 ? 2 : 4;
  auto* const sums = static_cast<float*>(out);
  const int32_t stride = Bf16Stride(tile.dim);
  const uint8_t* row = tile.codes;
  int32_t r = 0;
  for (; r + kRows <= tile.rows_count; r += kRows, row += int64_t{kRows} * stride) {
    ScanBf16Rows<kRows>(row, stride, packed, sums + r);
  }
  for (; r < tile.rows_count; ++r, row += stride) {
    ScanBf16Rows<1>(row, stride, packed, sums + r);
  }
}

// kRows rows against kPanels panels.
template <int32_t kPanels, int32_t kRows>
HWY_INLINE void ScanBf16Block(const uint8_t* row, int32_t dim, const std::byte* packed,
                              float* products) {
  const int64_t panel_floats = Bf16PanelBytes(dim) / int64_t{sizeof(float)};
  const int64_t stride = Bf16Stride(dim);
  const int32_t words = RowWords(dim);
  VecF sums[kRows][kPanels];
  NEARFIELD_UNROLL
  for (int32_t r = 0; r < kRows; ++r) {
    NEARFIELD_UNROLL
    for (int32_t p = 0; p < kPanels; ++p) sums[r][p] = hn::Zero(kTagF);
  }
  const auto* query = reinterpret_cast<const float*>(packed);
  constexpr int32_t kLineWords = kCodeLine / 4;
  for (int32_t w = 0; w < words; ++w, query += kStepElements) {
    const uint8_t* const at = row + int64_t{w} * 4;
    if (w % kLineWords == 0) {
      NEARFIELD_UNROLL
      for (int32_t r = 0; r < kRows; ++r) {  // the rows that come next
        __builtin_prefetch(at + (r + kRows) * stride, 0, 2);
      }
    }
    VecF even[kPanels];
    VecF odd[kPanels];
    NEARFIELD_UNROLL
    for (int32_t p = 0; p < kPanels; ++p) {
      even[p] = hn::Load(kTagF, query + p * panel_floats);
      odd[p] = hn::Load(kTagF, query + p * panel_floats + kLanes);
    }
    NEARFIELD_UNROLL
    for (int32_t r = 0; r < kRows; ++r) {
      int32_t word;
      std::memcpy(&word, at + r * stride, sizeof(word));
      const Vec32 spread = hn::Set(kTag32, word);
      const VecF row_even = EvenElements(spread);
      const VecF row_odd = OddElements(spread);
      NEARFIELD_UNROLL
      for (int32_t p = 0; p < kPanels; ++p) {
        sums[r][p] = hn::MulAdd(row_even, even[p], sums[r][p]);
        sums[r][p] = hn::MulAdd(row_odd, odd[p], sums[r][p]);
      }
    }
  }
  NEARFIELD_UNROLL
  for (int32_t r = 0; r < kRows; ++r) {
    NEARFIELD_UNROLL
    for (int32_t p = 0; p < kPanels; ++p) {
      hn::Store(sums[r][p], kTagF, products + (r * kPanels + p) * kLanes);
    }
  }
}

template <int32_t kPanels, int32_t kRows>
void ScanBf16Blocks(const CodeTile& tile, const std::byte* packed, float* products) {
  const int64_t stride = Bf16Stride(tile.dim);
  int32_t r = 0;
  for (; r + kRows <= tile.rows_count; r += kRows) {
    ScanBf16Block<kPanels, kRows>(tile.codes + r * stride, tile.dim, packed,
                                  products + int64_t{r} * kPanels * kLanes);
  }
  for (; r < tile.rows_count; ++r) {
    ScanBf16Block<kPanels, 1>(tile.codes + r * stride, tile.dim, packed,
                              products + int64_t{r} * kPanels * kLanes);
  }
}

// As many sums as the registers hold beside their factors.
void ScanBf16Panels(const CodeTile& tile, const std::byte* packed, int32_t panels_count,
                    void* out) {
  auto* const products = static_cast<float*>(out);
#if HWY_TARGET == HWY_AVX2
  if (panels_count == 1) return ScanBf16Blocks<1, 6>(tile, packed, products);
  if (panels_count == 2) return ScanBf16Blocks<2, 3>(tile, packed, products);
  if (panels_count == 3) return ScanBf16Blocks<3, 2>(tile, packed, products);
  return ScanBf16Blocks<4, 1>(tile, packed, products);
#else
  if (panels_count == 1) return ScanBf16Blocks<1, 8>(tile, packed, products);
  if (panels_count == 2) return ScanBf16Blocks<2, 6>(tile, packed, products);
  if (panels_count == 3) return ScanBf16Blocks<3, 6>(tile, packed, products);
  return ScanBf16Blocks<4, 4>(tile, packed, products);
#endif
}

}  // namespace HWY_NAMESPACE
}  // namespace nearfield::cpu
HWY_AFTER_NAMESPACE();

#endif  // include guard per instruction set
