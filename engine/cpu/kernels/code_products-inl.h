// Exact products of codes. Included once per instruction set.
// One query is bound by memory: rows are read once, in order, a few at a time, and are multiplied
// with both of the query's codes, or with one of 16 bits where words are multiplied anyway. Many
// queries are bound by the multiply units: a lane is a query, four bytes of a row are broadcast to
// all lanes, and up to 6 x 4 sums stay in registers, so no sum is ever added across lanes.
#if defined(NEARFIELD_ENGINE_CPU_KERNELS_CODE_PRODUCTS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef NEARFIELD_ENGINE_CPU_KERNELS_CODE_PRODUCTS_INL_H_
#undef NEARFIELD_ENGINE_CPU_KERNELS_CODE_PRODUCTS_INL_H_
#else
#define NEARFIELD_ENGINE_CPU_KERNELS_CODE_PRODUCTS_INL_H_
#endif

#include <algorithm>
#include <cstring>
#include <limits>

#include "engine/cpu/kernels/code_kernels.h"
#include "engine/cpu/kernels/vector_steps-inl.h"

HWY_BEFORE_NAMESPACE();
namespace nearfield::cpu {
namespace HWY_NAMESPACE {

using Tag32 = hn::ScalableTag<int32_t>;
using Vec32 = hn::VFromD<Tag32>;
inline constexpr Tag32 kTag32;
inline constexpr int32_t kLanes = static_cast<int32_t>(hn::MaxLanes(Tag32()));
inline constexpr int32_t kVectorBytes = kLanes * 4;
inline constexpr int32_t kWordCodes = 4;  // codes of one row in a lane

// Two ways to multiply and add follow. A vector of 32-bit words, four codes each, is multiplied
// with kQueryVectors vectors of a packed query, word for word. kOneCodes: the codes of one query.
// kOneRows: rows that one query is multiplied with at a time. One row at a time is a stream that
// the hardware prefetcher follows; several read the query less often.

// Widens bytes to 16-bit words, which are multiplied and added in pairs.
struct WidenedStep {
  static constexpr int32_t kQueryVectors = 2;
  static constexpr int32_t kOneCodes = 1;
  static constexpr int32_t kOneRows = 1;
  template <typename Code>
  static void PackWord(const Code* codes, int32_t lane, std::byte* vectors) {
    auto* const even = reinterpret_cast<int16_t*>(vectors) + 2 * lane;
    auto* const odd = even + 2 * kLanes;
    even[0] = codes[0];
    even[1] = codes[2];
    odd[0] = codes[1];
    odd[1] = codes[3];
  }
  struct Query {
    Vec32 even, odd;
  };
  struct Row {
    Vec32 even, odd;
  };
  static HWY_INLINE Query Load(const std::byte* vectors) {
    const auto* words = reinterpret_cast<const int32_t*>(vectors);
    return {hn::Load(kTag32, words), hn::Load(kTag32, words + kLanes)};
  }
  static HWY_INLINE Row Prepare(Vec32 row) {
    const hn::Repartition<uint16_t, Tag32> words;
    const auto odd = hn::ShiftRight<8>(hn::BitCast(words, row));
    return {hn::And(row, hn::Set(kTag32, 0x00ff00ff)), hn::BitCast(kTag32, odd)};
  }
  static HWY_INLINE Vec32 PairSums(Vec32 row, Vec32 query) {
#if HWY_TARGET == HWY_AVX2
    return Vec32{_mm256_madd_epi16(row.raw, query.raw)};
#else
    return Vec32{_mm512_madd_epi16(row.raw, query.raw)};
#endif
  }
  static HWY_INLINE Vec32 Add(Vec32 sum, Row row, Query query) {
    sum = hn::Add(sum, PairSums(row.even, query.even));
    return hn::Add(sum, PairSums(row.odd, query.odd));
  }
};

// Four products and their sum in one instruction, exact (not the saturating form). Uses inline
// assembly because the compiler's target for this instruction set does not include the extension;
// the caller has checked that the CPU supports it.
struct VnniStep {
  static constexpr int32_t kQueryVectors = 1;
  static constexpr int32_t kOneCodes = 2;
  static constexpr int32_t kOneRows = 8;
  static void PackWord(const int8_t* codes, int32_t lane, std::byte* vectors) {
    std::memcpy(vectors + lane * kWordCodes, codes, kWordCodes);
  }
  struct Query {
    Vec32 codes;
  };
  struct Row {
    Vec32 codes;
  };
  static HWY_INLINE Query Load(const std::byte* vectors) {
    return {hn::Load(kTag32, reinterpret_cast<const int32_t*>(vectors))};
  }
  static HWY_INLINE Row Prepare(Vec32 row) { return {row}; }
  static HWY_INLINE Vec32 Add(Vec32 sum, Row row, Query query) {
#if HWY_TARGET == HWY_AVX2
    asm("%{vex%} vpdpbusd %2, %1, %0" : "+x"(sum.raw) : "x"(row.codes.raw), "x"(query.codes.raw));
#else
    asm("vpdpbusd %2, %1, %0" : "+v"(sum.raw) : "v"(row.codes.raw), "v"(query.codes.raw));
#endif
    return sum;
  }
};

// Packed forms begin with the amount that the rows' bias adds to each product.
inline constexpr int32_t kHeadBytes = 64;
static_assert(kHeadBytes >= kVectorBytes);

template <class Step>
int64_t OneBytes(int32_t dim) {
  return kHeadBytes + int64_t{Step::kOneCodes} * Step::kQueryVectors * CodeStride(dim);
}
template <class Step>
int64_t PanelBytes(int32_t dim) {
  const int64_t words = CodeStride(dim) / kWordCodes;  // of whole lines: tile_products-inl.h
  return kHeadBytes + words * Step::kQueryVectors * kVectorBytes;
}

// No sum of products of biased codes exceeds 31 bits.
template <class Step>
int32_t WholeMax(int32_t dim) {
  if constexpr (Step::kOneCodes == 2) return 0;
  const int64_t codes = int64_t{kCodeBias + 127} * dim;
  return static_cast<int32_t>(std::min<int64_t>(std::numeric_limits<int16_t>::max(),
                                                std::numeric_limits<int32_t>::max() / codes));
}

template <typename Code>
int32_t BiasSum(const Code* codes, int32_t dim) {
  int32_t sum = 0;
  for (int32_t d = 0; d < dim; ++d) sum += codes[d];
  return kCodeBias * sum;
}

template <class Step, typename Code>
void PackCodes(const Code* codes, int32_t dim, int32_t lane, int64_t lane_step, std::byte* out) {
  for (int32_t d = 0; d < dim; d += kWordCodes) {
    Code word[kWordCodes] = {};
    std::copy(codes + d, codes + std::min(d + kWordCodes, dim), word);
    Step::PackWord(word, lane, out);
    lane += static_cast<int32_t>(lane_step);
    if (lane_step == 0 || lane == kLanes) {
      lane = lane_step == 0 ? lane : 0;
      out += Step::kQueryVectors * kVectorBytes;
    }
  }
}

// Packs the codes of one query: consecutive words of a code go to consecutive lanes.
template <class Step>
void PackOne(const OneQueryCodes& codes, int32_t dim, std::byte* packed) {
  std::memset(packed, 0, static_cast<size_t>(OneBytes<Step>(dim)));
  auto* const head = reinterpret_cast<int32_t*>(packed);
  std::byte* const words = packed + kHeadBytes;
  if constexpr (Step::kOneCodes == 1) {
    std::fill(head, head + kLanes, BiasSum(codes.whole, dim));
    PackCodes<Step>(codes.whole, dim, 0, 1, words);
  } else {
    std::fill(head, head + kLanes / 2, BiasSum(codes.first, dim));
    std::fill(head + kLanes / 2, head + kLanes, BiasSum(codes.second, dim));
    PackCodes<Step>(codes.first, dim, 0, 1, words);
    PackCodes<Step>(codes.second, dim, 0, 1,
                    words + int64_t{Step::kQueryVectors} * CodeStride(dim));
  }
}

// Packs the codes of a panel: each lane holds the same word of another query.
template <class Step>
void PackPanel(const int8_t* codes, int64_t stride, int32_t count, int32_t dim, std::byte* packed) {
  std::memset(packed, 0, static_cast<size_t>(PanelBytes<Step>(dim)));
  for (int32_t q = 0; q < count; ++q) {
    reinterpret_cast<int32_t*>(packed)[q] = BiasSum(codes + q * stride, dim);
    PackCodes<Step>(codes + q * stride, dim, q, 0, packed + kHeadBytes);
  }
}

// Prefetch distance for codes, in bytes.
inline constexpr int64_t kCodesAhead = 4096;

// Returns the sums of the lanes of each vector: lane i of the result is the sum of v[i].
HWY_INLINE Vec32 SumsOfLanes(const Vec32 (&v)[kLanes]) {
  const auto pairs = [](Vec32 a, Vec32 b) HWY_ATTR {
    return hn::Add(hn::InterleaveLower(kTag32, a, b), hn::InterleaveUpper(kTag32, a, b));
  };
  const auto halves = [](Vec32 a, Vec32 b) HWY_ATTR {
    return hn::Add(hn::ConcatLowerLower(kTag32, b, a), hn::ConcatUpperUpper(kTag32, b, a));
  };
  const hn::Repartition<int64_t, Tag32> wide;
  Vec32 fours[kLanes / 4];  // block b of fours[i]: the sums of block b of v[4i .. 4i + 3]
  NEARFIELD_UNROLL
  for (int32_t i = 0; i < kLanes / 4; ++i) {
    const auto low = hn::BitCast(wide, pairs(v[4 * i], v[4 * i + 1]));
    const auto high = hn::BitCast(wide, pairs(v[4 * i + 2], v[4 * i + 3]));
    fours[i] = hn::Add(hn::BitCast(kTag32, hn::InterleaveLower(wide, low, high)),
                       hn::BitCast(kTag32, hn::InterleaveUpper(wide, low, high)));
  }
#if HWY_TARGET == HWY_AVX2
  return halves(fours[0], fours[1]);
#else
  const Vec32 even = halves(fours[0], fours[2]);
  const Vec32 odd = halves(fours[1], fours[3]);
  return hn::Add(hn::OddEvenBlocks(odd, even),
                 hn::SwapAdjacentBlocks(hn::OddEvenBlocks(even, odd)));
#endif
}

// Rows whose products with all codes of a query are summed together: their sums fill one vector.
template <class Step>
inline constexpr int32_t kRowsOfOne = kLanes / Step::kOneCodes;

// Computes the products of kRows rows, 1 or kRowsOfOne, with all codes of a query. kStreamed: the
// rows come from memory, so later ones are prefetched.
template <class Step, int32_t kRows, bool kStreamed>
HWY_INLINE void ScanRows(const uint8_t* row, int32_t stride, const std::byte* packed,
                         int32_t* first, int32_t* second) {
  constexpr int32_t kTogether = kRowsOfOne<Step>;
  const std::byte* const words = packed + kHeadBytes;
  Vec32 sums[kLanes];  // kTogether of each code
  NEARFIELD_UNROLL
  for (int32_t i = 0; i < kLanes; ++i) sums[i] = hn::Zero(kTag32);
  constexpr int32_t kStep = std::min(kRows, Step::kOneRows);
  NEARFIELD_UNROLL
  for (int32_t begin = 0; begin < kRows; begin += kStep) {
    for (int32_t d = 0; d < stride; d += kVectorBytes) {
      typename Step::Query queries[Step::kOneCodes];
      NEARFIELD_UNROLL
      for (int32_t c = 0; c < Step::kOneCodes; ++c) {
        queries[c] = Step::Load(words + (int64_t{c} * stride + d) * Step::kQueryVectors);
      }
      NEARFIELD_UNROLL
      for (int32_t r = begin; r < begin + kStep; ++r) {
        const uint8_t* const at = row + int64_t{r} * stride + d;
        if constexpr (kStreamed) __builtin_prefetch(at + kCodesAhead, 0, 2);
        const auto codes = Step::Prepare(hn::Load(kTag32, reinterpret_cast<const int32_t*>(at)));
        NEARFIELD_UNROLL
        for (int32_t c = 0; c < Step::kOneCodes; ++c) {
          sums[c * kTogether + r] = Step::Add(sums[c * kTogether + r], codes, queries[c]);
        }
      }
    }
  }
  const auto* const bias = reinterpret_cast<const int32_t*>(packed);
  if constexpr (kRows == 1) {
    *first = hn::GetLane(hn::SumOfLanes(kTag32, sums[0])) - bias[0];
    *second = 0;
    if constexpr (Step::kOneCodes == 2) {
      *second = hn::GetLane(hn::SumOfLanes(kTag32, sums[kTogether])) - bias[kTogether];
    }
  } else {
    const Vec32 products = hn::Sub(SumsOfLanes(sums), hn::Load(kTag32, bias));
    if constexpr (Step::kOneCodes == 2) {
      const hn::Half<Tag32> half;
      hn::StoreU(hn::LowerHalf(half, products), half, first);
      hn::StoreU(hn::UpperHalf(half, products), half, second);
    } else {
      hn::StoreU(products, kTag32, first);
      hn::StoreU(hn::Zero(kTag32), kTag32, second);
    }
  }
}

template <class Step, bool kStreamed>
HWY_INLINE void ScanRowsOfTile(const CodeTile& tile, const std::byte* packed, int32_t* first,
                               int32_t* second) {
  constexpr int32_t kTogether = kRowsOfOne<Step>;
  const int32_t stride = CodeStride(tile.dim);
  const uint8_t* row = tile.codes;
  int32_t r = 0;
  for (; r + kTogether <= tile.rows_count; r += kTogether, row += int64_t{kTogether} * stride) {
    ScanRows<Step, kTogether, kStreamed>(row, stride, packed, first + r, second + r);
  }
  for (; r < tile.rows_count; ++r, row += stride) {
    ScanRows<Step, 1, kStreamed>(row, stride, packed, first + r, second + r);
  }
}

template <class Step>
void ScanOneCode(const CodeTile& tile, const std::byte* packed, int32_t* first, int32_t* second) {
  return tile.streamed ? ScanRowsOfTile<Step, true>(tile, packed, first, second)
                       : ScanRowsOfTile<Step, false>(tile, packed, first, second);
}

// Multiplies kRows rows with kPanels panels.
template <class Step, int32_t kPanels, int32_t kRows>
HWY_INLINE void ScanBlock(const uint8_t* row, int32_t dim, const std::byte* packed,
                          int32_t* products) {
  const int64_t panel_bytes = PanelBytes<Step>(dim);
  const int64_t stride = CodeStride(dim);
  const int32_t words = (dim + kWordCodes - 1) / kWordCodes;
  Vec32 sums[kRows][kPanels];
  NEARFIELD_UNROLL
  for (int32_t p = 0; p < kPanels; ++p) {
    const auto* head = reinterpret_cast<const int32_t*>(packed + p * panel_bytes);
    const Vec32 bias = hn::Neg(hn::Load(kTag32, head));
    NEARFIELD_UNROLL
    for (int32_t r = 0; r < kRows; ++r) sums[r][p] = bias;
  }
  const std::byte* query = packed + kHeadBytes;
  const auto step = [&](const uint8_t* at) HWY_ATTR {
    typename Step::Query queries[kPanels];
    NEARFIELD_UNROLL
    for (int32_t p = 0; p < kPanels; ++p) queries[p] = Step::Load(query + p * panel_bytes);
    NEARFIELD_UNROLL
    for (int32_t r = 0; r < kRows; ++r) {
      int32_t word;
      std::memcpy(&word, at + r * stride, sizeof(word));
      const auto codes = Step::Prepare(hn::Set(kTag32, word));
      NEARFIELD_UNROLL
      for (int32_t p = 0; p < kPanels; ++p) {
        sums[r][p] = Step::Add(sums[r][p], codes, queries[p]);
      }
    }
    query += Step::kQueryVectors * kVectorBytes;
  };
  constexpr int32_t kLineWords = kCodeLine / kWordCodes;
  for (int32_t begin = 0; begin < words; begin += kLineWords) {
    const uint8_t* const line = row + int64_t{begin} * kWordCodes;
    NEARFIELD_UNROLL
    for (int32_t r = 0; r < kRows; ++r) {  // prefetch the next rows
      __builtin_prefetch(line + (r + kRows) * stride, 0, 2);
    }
    const int32_t end = std::min(kLineWords, words - begin);
    for (int32_t w = 0; w < end; ++w) step(line + w * kWordCodes);
  }
  NEARFIELD_UNROLL
  for (int32_t r = 0; r < kRows; ++r) {
    NEARFIELD_UNROLL
    for (int32_t p = 0; p < kPanels; ++p) {
      hn::Store(sums[r][p], kTag32, products + (r * kPanels + p) * kLanes);
    }
  }
}

template <class Step, int32_t kPanels, int32_t kRows>
void ScanBlocks(const CodeTile& tile, const std::byte* packed, int32_t* products) {
  const int64_t stride = CodeStride(tile.dim);
  int32_t r = 0;
  for (; r + kRows <= tile.rows_count; r += kRows) {
    ScanBlock<Step, kPanels, kRows>(tile.codes + r * stride, tile.dim, packed,
                                    products + int64_t{r} * kPanels * kLanes);
  }
  for (; r < tile.rows_count; ++r) {
    ScanBlock<Step, kPanels, 1>(tile.codes + r * stride, tile.dim, packed,
                                products + int64_t{r} * kPanels * kLanes);
  }
}

// Scans panels with as many sums as fit in registers next to their factors.
template <class Step>
void ScanPanels(const CodeTile& tile, const std::byte* packed, int32_t panels_count,
                int32_t* products) {
#if HWY_TARGET == HWY_AVX2
  if (panels_count == 1) return ScanBlocks<Step, 1, 6>(tile, packed, products);
  if (panels_count == 2) return ScanBlocks<Step, 2, 3>(tile, packed, products);
  if (panels_count == 3) return ScanBlocks<Step, 3, 2>(tile, packed, products);
  return ScanBlocks<Step, 4, 2>(tile, packed, products);
#else
  if (panels_count == 1) return ScanBlocks<Step, 1, 8>(tile, packed, products);
  if (panels_count == 2) return ScanBlocks<Step, 2, 8>(tile, packed, products);
  if (panels_count == 3) return ScanBlocks<Step, 3, 8>(tile, packed, products);
  return ScanBlocks<Step, 4, 6>(tile, packed, products);
#endif
}

}  // namespace HWY_NAMESPACE
}  // namespace nearfield::cpu
HWY_AFTER_NAMESPACE();

#endif  // include guard per instruction set
