// Many queries against a tile of rows: bound by the multiply-add units, so everything lies packed
// for them. Included once per instruction set.
//
// Rows and queries are widened to fp64 once and packed in panels [part][step][member][kWidth]:
// `part` is one vector's worth of the 32 accumulators, `step` counts 32 dimensions. One part at a
// time keeps 4 x 6 (AVX2: 4 x 3) sums of row-query pairs in registers: each loaded vector feeds 4
// or 6 multiply-adds, and all reads are sequential. The accumulators of all parts of a pair are
// then put through the canonical tree.
#if defined(NEARFIELD_ENGINE_CPU_SCAN_GROUP_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef NEARFIELD_ENGINE_CPU_SCAN_GROUP_INL_H_
#undef NEARFIELD_ENGINE_CPU_SCAN_GROUP_INL_H_
#else
#define NEARFIELD_ENGINE_CPU_SCAN_GROUP_INL_H_
#endif

#include <algorithm>

#include "engine/cpu/vector_steps-inl.h"

HWY_BEFORE_NAMESPACE();
namespace nearfield::cpu {
namespace HWY_NAMESPACE {

inline constexpr int32_t kPanelRows = 4;
inline constexpr int32_t kPanelQueriesMax = kWidth == 8 ? 6 : 3;
// Row-query pairs of one microkernel, rounded up so that the tree takes kWidth of them at a time.
inline constexpr int32_t kPairsMax = kPanelRows * kPanelQueriesMax;
static_assert(kPairsMax % kWidth == 0 && kRowGroup % kPanelRows == 0);

// Queries are cut in panels of nearly equal width: 7 are 4 + 3, as a panel of one would starve the
// units.
struct PanelCut {
  explicit PanelCut(int32_t queries_count)
      : panels_count((queries_count + kPanelQueriesMax - 1) / kPanelQueriesMax),
        narrow(queries_count / panels_count),
        wide_count(queries_count % panels_count) {}
  int32_t width(int32_t panel) const { return narrow + (panel < wide_count ? 1 : 0); }

  int32_t panels_count;
  int32_t narrow;
  int32_t wide_count;
};

void PackQueries(const float* queries, int32_t count, int32_t dim, double* packed) {
  const int32_t steps = PaddedDim(dim) / kDimStep;
  const PanelCut cut(count);
  for (int32_t panel = 0; panel < cut.panels_count; ++panel) {
    const int32_t width = cut.width(panel);
    for (int32_t part = 0; part < kParts; ++part) {
      for (int32_t step = 0; step < steps; ++step) {
        for (int32_t member = 0; member < width; ++member) {
          const float* query = queries + static_cast<int64_t>(member) * dim;
          for (int32_t lane = 0; lane < kWidth; ++lane) {
            const int32_t d = step * kDimStep + part * kWidth + lane;
            *packed++ = d < dim ? static_cast<double>(query[d]) : 0.0;
          }
        }
      }
    }
    queries += static_cast<int64_t>(width) * dim;
  }
}

// Scratch: the packed rows, then accumulators [row panel][part][pair][kWidth] of one panel of
// queries.
HWY_INLINE int32_t RowPanels(int32_t rows_count) {
  return (rows_count + kPanelRows - 1) / kPanelRows;
}
HWY_INLINE int64_t PackedRowsDoubles(int32_t rows_count, int32_t dim_padded) {
  return static_cast<int64_t>(RowPanels(rows_count)) * kPanelRows * dim_padded;
}
int64_t ScratchDoubles(int32_t rows_count, int32_t dim_padded) {
  return PackedRowsDoubles(rows_count, dim_padded) +
         static_cast<int64_t>(RowPanels(rows_count)) * kPairsMax * kDimStep;
}

template <RowType kType>
void PackRows(const RowTile& tile, double* packed) {
  const int64_t stride = static_cast<int64_t>(tile.dim_padded) * BytesPerElement(kType);
  const int32_t steps = tile.dim_padded / kDimStep;
  for (int32_t first = 0; first < tile.rows_count; first += kPanelRows) {
    for (int32_t member = 0; member < kPanelRows; ++member) {
      // Past the tile's end: the last row once more; its sums are not read.
      const std::byte* row = tile.rows + std::min(first + member, tile.rows_count - 1) * stride;
      for (int32_t step = 0; step < steps; ++step) {
        NEARFIELD_UNROLL
        for (int32_t part = 0; part < kParts; ++part) {
          const int64_t place = ((static_cast<int64_t>(part) * steps + step) * kPanelRows + member);
          hn::Store(LoadElements<kType>(row, step * kDimStep + part * kWidth), kTag,
                    packed + place * kWidth);
        }
      }
    }
    packed += static_cast<int64_t>(kPanelRows) * tile.dim_padded;
  }
}

// One part of all row-query pairs of two panels.
template <SumKind kKind, int32_t kQueries>
void AccumulatePart(const double* rows, const double* queries, int32_t steps, double* sums) {
  Vec pairs[kQueries][kPanelRows];
  NEARFIELD_UNROLL
  for (int32_t q = 0; q < kQueries; ++q) {
    NEARFIELD_UNROLL
    for (int32_t r = 0; r < kPanelRows; ++r) pairs[q][r] = hn::Zero(kTag);
  }
  for (int32_t step = 0; step < steps; ++step) {
    const Vec row0 = hn::Load(kTag, rows);
    const Vec row1 = hn::Load(kTag, rows + kWidth);
    const Vec row2 = hn::Load(kTag, rows + 2 * kWidth);
    const Vec row3 = hn::Load(kTag, rows + 3 * kWidth);
    NEARFIELD_UNROLL
    for (int32_t q = 0; q < kQueries; ++q) {
      const Vec query = hn::Load(kTag, queries + q * kWidth);
      pairs[q][0] = Step<kKind>(query, row0, pairs[q][0]);
      pairs[q][1] = Step<kKind>(query, row1, pairs[q][1]);
      pairs[q][2] = Step<kKind>(query, row2, pairs[q][2]);
      pairs[q][3] = Step<kKind>(query, row3, pairs[q][3]);
    }
    rows += kPanelRows * kWidth;
    queries += kQueries * kWidth;
  }
  NEARFIELD_UNROLL
  for (int32_t q = 0; q < kQueries; ++q) {
    NEARFIELD_UNROLL
    for (int32_t r = 0; r < kPanelRows; ++r) {
      hn::Store(pairs[q][r], kTag, sums + (q * kPanelRows + r) * kWidth);
    }
  }
}

using AccumulateFn = void (*)(const double*, const double*, int32_t, double*);

template <SumKind kKind>
AccumulateFn AccumulateOf(int32_t queries_count) {
  switch (queries_count) {
    case 1:
      return AccumulatePart<kKind, 1>;
    case 2:
      return AccumulatePart<kKind, 2>;
    case 3:
      return AccumulatePart<kKind, 3>;
    case 4:
      return AccumulatePart<kKind, HWY_MIN(4, kPanelQueriesMax)>;
    case 5:
      return AccumulatePart<kKind, HWY_MIN(5, kPanelQueriesMax)>;
    default:
      return AccumulatePart<kKind, kPanelQueriesMax>;
  }
}

// The tree for the pairs of one row panel and one query panel. sums[q * stride + r].
void ReducePairs(const double* accumulators, int32_t queries_count, double* sums, int32_t stride) {
  constexpr int32_t kPartStride = kPairsMax * kWidth;
  for (int32_t first = 0; first < queries_count * kPanelRows; first += kWidth) {
    Vec reduced[kWidth];
    NEARFIELD_UNROLL
    for (int32_t i = 0; i < kWidth; ++i) {
      Vec parts[kParts];
      NEARFIELD_UNROLL
      for (int32_t part = 0; part < kParts; ++part) {
        parts[part] = hn::Load(kTag, accumulators + part * kPartStride + (first + i) * kWidth);
      }
      reduced[i] = ReduceParts(parts);
    }
    HWY_ALIGN double out[kWidth];
    hn::Store(ReduceLanes(reduced), kTag, out);
    for (int32_t i = 0; i < kWidth && first + i < queries_count * kPanelRows; i += kPanelRows) {
      const int32_t query = (first + i) / kPanelRows;
      std::copy(out + i, out + i + kPanelRows, sums + static_cast<int64_t>(query) * stride);
    }
  }
}

// Spreads the fetching of what is needed next over the calls of the microkernel.
class Fetcher {
 public:
  Fetcher(const Upcoming& upcoming, int64_t calls)
      : next_(upcoming.data),
        end_(upcoming.data + upcoming.bytes),
        bytes_per_call_((upcoming.bytes / std::max<int64_t>(calls, 1) + 64) / 64 * 64) {}
  HWY_INLINE void Fetch() {
    const std::byte* const stop = next_ + std::min<int64_t>(bytes_per_call_, end_ - next_);
    for (; next_ < stop; next_ += 64) __builtin_prefetch(next_, 0, 2);  // to L2
  }

 private:
  const std::byte* next_;
  const std::byte* end_;
  int64_t bytes_per_call_;
};

void ScanGroup(const GroupScan& scan) {
  const RowTile& tile = scan.tile;
  const int32_t steps = tile.dim_padded / kDimStep;
  const int32_t row_panels = RowPanels(tile.rows_count);
  double* const rows = scan.scratch;
  double* const accumulators = rows + PackedRowsDoubles(tile.rows_count, tile.dim_padded);
  switch (tile.row_type) {
    case RowType::kFloat32:
      PackRows<RowType::kFloat32>(tile, rows);
      break;
    case RowType::kFloat16:
      PackRows<RowType::kFloat16>(tile, rows);
      break;
    case RowType::kBFloat16:
      PackRows<RowType::kBFloat16>(tile, rows);
      break;
  }
  const PanelCut cut(scan.queries_count);
  Fetcher fetcher(scan.upcoming, int64_t{cut.panels_count} * row_panels * kParts);
  const double* queries = scan.queries;
  double* sums = scan.sums;
  for (int32_t panel = 0; panel < cut.panels_count; ++panel) {
    const int32_t width = cut.width(panel);
    const AccumulateFn accumulate = scan.kind == SumKind::kProduct
                                        ? AccumulateOf<SumKind::kProduct>(width)
                                        : AccumulateOf<SumKind::kSquaredDistance>(width);
    for (int32_t part = 0; part < kParts; ++part) {
      const double* part_queries = queries + static_cast<int64_t>(part) * steps * width * kWidth;
      const double* part_rows = rows + static_cast<int64_t>(part) * steps * kPanelRows * kWidth;
      for (int32_t p = 0; p < row_panels; ++p) {
        accumulate(part_rows + static_cast<int64_t>(p) * kPanelRows * tile.dim_padded, part_queries,
                   steps, accumulators + (int64_t{p} * kParts + part) * kPairsMax * kWidth);
        fetcher.Fetch();
      }
    }
    for (int32_t p = 0; p < row_panels; ++p) {
      ReducePairs(accumulators + int64_t{p} * kDimStep * kPairsMax, width, sums + p * kPanelRows,
                  scan.sums_stride);
    }
    queries += static_cast<int64_t>(width) * tile.dim_padded;
    sums += static_cast<int64_t>(width) * scan.sums_stride;
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace nearfield::cpu
HWY_AFTER_NAMESPACE();

#endif  // include guard per instruction set
