// Scores one query against a tile of rows. This is bound by memory, so rows are read once, in
// order, from their place in the plane. Included once per instruction set.
#if defined(NEARFIELD_ENGINE_CPU_KERNELS_SCAN_ONE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef NEARFIELD_ENGINE_CPU_KERNELS_SCAN_ONE_INL_H_
#undef NEARFIELD_ENGINE_CPU_KERNELS_SCAN_ONE_INL_H_
#else
#define NEARFIELD_ENGINE_CPU_KERNELS_SCAN_ONE_INL_H_
#endif

#include <algorithm>

#include "engine/cpu/kernels/vector_steps-inl.h"

HWY_BEFORE_NAMESPACE();
namespace nearfield::cpu {
namespace HWY_NAMESPACE {

// Source of the other factor: a query of fp64, or the row itself.
enum class Other { kQuery, kRow };

// Prefetch distance for rows in bytes: about the product of latency and bandwidth of one core.
inline constexpr int64_t kFetchAhead = 3072;

// Returns the sum over one row. Prefetches from `ahead`, line for line with the reads.
template <SumKind kKind, RowType kType, Other kOther>
HWY_INLINE Vec RowSum(const std::byte* row, const std::byte* ahead, int32_t dim_padded,
                      const double* query) {
  Vec parts[kParts];
  NEARFIELD_UNROLL
  for (int32_t p = 0; p < kParts; ++p) parts[p] = hn::Zero(kTag);
  for (int32_t d = 0; d < dim_padded; d += kDimStep) {
    constexpr int32_t kStepBytes = kDimStep * BytesPerElement(kType);
    const std::byte* const fetched = ahead + static_cast<int64_t>(d) * BytesPerElement(kType);
    NEARFIELD_UNROLL
    for (int32_t line = 0; line < kStepBytes; line += 64) __builtin_prefetch(fetched + line, 0, 2);
    NEARFIELD_UNROLL
    for (int32_t p = 0; p < kParts; ++p) {
      const Vec x = LoadElements<kType>(row, d + p * kWidth);
      const Vec q = kOther == Other::kRow ? x : hn::Load(kTag, query + d + p * kWidth);
      parts[p] = Step<kKind>(q, x, parts[p]);
    }
  }
  return ReduceParts(parts);
}

template <SumKind kKind, RowType kType, Other kOther>
void TileSums(const RowTile& tile, const double* query, double* sums) {
  const int64_t stride = static_cast<int64_t>(tile.dim_padded) * BytesPerElement(kType);
  for (int32_t r = 0; r < tile.rows_count; r += kWidth) {
    Vec reduced[kWidth];
    const std::byte* rows = tile.rows + r * stride;
    const int32_t rows_here = std::min(kWidth, tile.rows_count - r);
    for (int32_t i = 0; i < kWidth; ++i) {  // after the tile's end: the last row again, unused
      const std::byte* row = rows + std::min(i, rows_here - 1) * stride;
      reduced[i] = RowSum<kKind, kType, kOther>(row, row + kFetchAhead, tile.dim_padded, query);
    }
    hn::StoreU(ReduceLanes(reduced), kTag, sums + r);
  }
}

// Sums rows at arbitrary slots. Prefetches rows that follow while one is summed.
template <SumKind kKind, RowType kType>
void ListedSums(const ListedRows& listed, const double* query, double* sums) {
  constexpr int32_t kRowsAhead = 2;
  const int32_t dim_padded = listed.plane.dim_padded;
  const int64_t stride = static_cast<int64_t>(dim_padded) * BytesPerElement(kType);
  const auto row_at = [&](int32_t i) HWY_ATTR {
    return listed.plane.rows + listed.slots[std::min(i, listed.count - 1)] * stride;
  };
  for (int32_t r = 0; r < listed.count; r += kWidth) {
    Vec reduced[kWidth];
    for (int32_t i = 0; i < kWidth; ++i) reduced[i] = hn::Zero(kTag);
    for (int32_t i = 0; i < std::min(kWidth, listed.count - r); ++i) {
      reduced[i] = RowSum<kKind, kType, Other::kQuery>(row_at(r + i), row_at(r + i + kRowsAhead),
                                                       dim_padded, query);
    }
    hn::StoreU(ReduceLanes(reduced), kTag, sums + r);
  }
}

template <RowType kType>
void ScanListedOf(const ListedRows& listed, SumKind kind, const double* query, double* sums) {
  if (kind == SumKind::kProduct) {
    ListedSums<SumKind::kProduct, kType>(listed, query, sums);
  } else {
    ListedSums<SumKind::kSquaredDistance, kType>(listed, query, sums);
  }
}

void ScanListed(const ListedRows& listed, SumKind kind, const double* query, double* sums) {
  switch (listed.plane.row_type) {
    case RowType::kFloat32: return ScanListedOf<RowType::kFloat32>(listed, kind, query, sums);
    case RowType::kFloat16: return ScanListedOf<RowType::kFloat16>(listed, kind, query, sums);
    case RowType::kBFloat16: return ScanListedOf<RowType::kBFloat16>(listed, kind, query, sums);
  }
}

template <RowType kType>
void ScanOneOf(const RowTile& tile, SumKind kind, const double* query, double* sums) {
  if (kind == SumKind::kProduct) {
    TileSums<SumKind::kProduct, kType, Other::kQuery>(tile, query, sums);
  } else {
    TileSums<SumKind::kSquaredDistance, kType, Other::kQuery>(tile, query, sums);
  }
}

void ScanOne(const RowTile& tile, SumKind kind, const double* query, double* sums) {
  switch (tile.row_type) {
    case RowType::kFloat32: return ScanOneOf<RowType::kFloat32>(tile, kind, query, sums);
    case RowType::kFloat16: return ScanOneOf<RowType::kFloat16>(tile, kind, query, sums);
    case RowType::kBFloat16: return ScanOneOf<RowType::kBFloat16>(tile, kind, query, sums);
  }
}

void SquareRows(const RowTile& tile, double* out) {
  switch (tile.row_type) {
    case RowType::kFloat32:
      return TileSums<SumKind::kProduct, RowType::kFloat32, Other::kRow>(tile, nullptr, out);
    case RowType::kFloat16:
      return TileSums<SumKind::kProduct, RowType::kFloat16, Other::kRow>(tile, nullptr, out);
    case RowType::kBFloat16:
      return TileSums<SumKind::kProduct, RowType::kBFloat16, Other::kRow>(tile, nullptr, out);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace nearfield::cpu
HWY_AFTER_NAMESPACE();

#endif  // include guard per instruction set
