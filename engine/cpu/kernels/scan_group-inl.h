// Scores many queries against a tile of rows. This is bound by the multiply-add units, so all data
// is packed for them. Included once per instruction set.
//
// Rows and queries are widened to fp64 and packed in panels [part][step][member][kWidth]: `part` is
// one vector's worth of the 32 accumulators, `step` counts 32 dimensions. Computing one part at a
// time keeps 4 x 6 (AVX2: 4 x 3) sums of row-query pairs in registers: each loaded vector feeds 4
// or 6 multiply-adds, and all reads are sequential. The accumulators of all parts of a pair are
// then reduced by the canonical tree. As many packed parts of four rows as fit stay in the L1 cache
// while a chunk of queries streams by from L2. (All parts of 16 to 64 rows in L2 instead reached
// 40 GFLOP/s for 8 queries of 384 dimensions, against 66.)
#if defined(NEARFIELD_ENGINE_CPU_KERNELS_SCAN_GROUP_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef NEARFIELD_ENGINE_CPU_KERNELS_SCAN_GROUP_INL_H_
#undef NEARFIELD_ENGINE_CPU_KERNELS_SCAN_GROUP_INL_H_
#else
#define NEARFIELD_ENGINE_CPU_KERNELS_SCAN_GROUP_INL_H_
#endif

#include <algorithm>

#include "engine/cpu/kernels/vector_steps-inl.h"

HWY_BEFORE_NAMESPACE();
namespace nearfield::cpu {
namespace HWY_NAMESPACE {

inline constexpr int32_t kPanelRows = 4;
inline constexpr int32_t kPanelQueriesMax = kWidth == 8 ? 6 : 3;
// Row-query pairs of one microkernel: a multiple of kWidth, because the tree reduces kWidth pairs
// at a time.
inline constexpr int32_t kPairsMax = kPanelRows * kPanelQueriesMax;
static_assert(kPairsMax % kWidth == 0 && kRowGroup % kPanelRows == 0);

// Cuts queries into panels of nearly equal width: 7 are 4 + 3, because a panel of one would starve
// the multiply-add units.
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

// Bytes of packed queries that are scanned with one panel of rows before the next panel: they stay
// in the L2 cache.
inline constexpr int64_t kChunkBytes = 512 << 10;

// Bytes of packed parts of four rows that stay in the L1 cache: half of the smallest in use.
inline constexpr int64_t kRowPanelBytes = 16 << 10;
// Accumulators of one panel of rows and one of queries: [part][pair][kWidth].
inline constexpr int64_t kPartDoubles = int64_t{kPairsMax} * kWidth;
inline constexpr int64_t kPanelDoubles = kPartDoubles * kParts;

// The sizes into which rows and queries of one dimension are cut.
struct ChunkPlan {
  explicit ChunkPlan(int32_t dim_padded) {
    const int64_t part_bytes = int64_t{kPanelRows} * dim_padded / kParts * int64_t{sizeof(double)};
    parts_a_pass = kParts;
    while (parts_a_pass > 1 && parts_a_pass * part_bytes > kRowPanelBytes) parts_a_pass /= 2;
    const int64_t panel_bytes = int64_t{kPanelQueriesMax} * dim_padded * int64_t{sizeof(double)};
    panels_a_chunk = static_cast<int32_t>(std::max<int64_t>(1, kChunkBytes / panel_bytes));
  }
  int32_t parts_a_pass;    // divides kParts
  int32_t panels_a_chunk;  // of queries
};

// Sizes of the scratch memory: parts of one panel of rows, then the accumulators of that panel and
// all panels of a chunk.
HWY_INLINE int64_t PackedRowsDoubles(const ChunkPlan& plan, int32_t dim_padded) {
  return int64_t{kPanelRows} * dim_padded / kParts * plan.parts_a_pass;
}
int64_t ScratchDoubles(int32_t dim_padded) {
  const ChunkPlan plan(dim_padded);
  return PackedRowsDoubles(plan, dim_padded) + kPanelDoubles * plan.panels_a_chunk;
}

// Rows first, first + 1, ... of a tile and some parts of their accumulators. After the tile's end
// the last row is repeated; its sums are not used.
struct RowPart {
  int32_t first;
  int32_t part_begin;
  int32_t part_end;
};

template <RowType kType>
void PackRows(const RowTile& tile, RowPart which, double* packed) {
  const int64_t stride = static_cast<int64_t>(tile.dim_padded) * BytesPerElement(kType);
  const int32_t steps = tile.dim_padded / kDimStep;
  for (int32_t member = 0; member < kPanelRows; ++member) {
    const std::byte* row = tile.rows + std::min(which.first + member, tile.rows_count - 1) * stride;
    for (int32_t part = which.part_begin; part < which.part_end; ++part) {
      double* out =
          packed + (int64_t{part - which.part_begin} * steps * kPanelRows + member) * kWidth;
      for (int32_t step = 0; step < steps; ++step) {
        hn::Store(LoadElements<kType>(row, step * kDimStep + part * kWidth), kTag, out);
        out += kPanelRows * kWidth;
      }
    }
  }
}

using PackRowsFn = void (*)(const RowTile&, RowPart, double*);

inline PackRowsFn PackRowsOf(RowType type) {
  switch (type) {
    case RowType::kFloat32: return PackRows<RowType::kFloat32>;
    case RowType::kFloat16: return PackRows<RowType::kFloat16>;
    case RowType::kBFloat16: return PackRows<RowType::kBFloat16>;
  }
  return nullptr;
}

// Accumulates one part of all row-query pairs of two panels.
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
    case 1: return AccumulatePart<kKind, 1>;
    case 2: return AccumulatePart<kKind, 2>;
    case 3: return AccumulatePart<kKind, 3>;
    case 4: return AccumulatePart<kKind, HWY_MIN(4, kPanelQueriesMax)>;
    case 5: return AccumulatePart<kKind, HWY_MIN(5, kPanelQueriesMax)>;
    default: return AccumulatePart<kKind, kPanelQueriesMax>;
  }
}

// Reduces the pairs of one row panel and one query panel by the tree into sums[q * stride + r].
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

// Spreads prefetching of the next data over the calls of the microkernel.
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

struct Chunk {
  int32_t panel_begin;
  int32_t panel_end;
  const double* queries;
  double* sums;
};

// Scores panels [panel_begin, panel_end) of the queries, packed at `queries`, against four rows.
template <SumKind kKind>
void ScanRowPanel(const GroupScan& scan, const PanelCut& cut, const Chunk& chunk, int32_t first,
                  Fetcher& fetcher) {
  const RowTile& tile = scan.tile;
  const ChunkPlan plan(tile.dim_padded);
  const int64_t part_doubles = int64_t{tile.dim_padded} / kParts;  // of one row or query
  const PackRowsFn pack_rows = PackRowsOf(tile.row_type);
  double* const rows = scan.scratch;
  for (int32_t part_begin = 0; part_begin < kParts; part_begin += plan.parts_a_pass) {
    const int32_t part_end = part_begin + plan.parts_a_pass;
    pack_rows(tile, {first, part_begin, part_end}, rows);
    double* accumulators = rows + PackedRowsDoubles(plan, tile.dim_padded);
    const double* queries = chunk.queries;
    double* sums = chunk.sums + first;
    for (int32_t panel = chunk.panel_begin; panel < chunk.panel_end; ++panel) {
      const int32_t width = cut.width(panel);
      const AccumulateFn accumulate = AccumulateOf<kKind>(width);
      for (int32_t part = part_begin; part < part_end; ++part) {
        accumulate(rows + (part - part_begin) * part_doubles * kPanelRows,
                   queries + part * part_doubles * width, tile.dim_padded / kDimStep,
                   accumulators + part * kPartDoubles);
        fetcher.Fetch();
      }
      if (part_end == kParts) ReducePairs(accumulators, width, sums, scan.sums_stride);
      if (plan.parts_a_pass != kParts) accumulators += kPanelDoubles;  // else already reduced
      queries += int64_t{width} * tile.dim_padded;
      sums += int64_t{width} * scan.sums_stride;
    }
  }
}

void ScanGroup(const GroupScan& scan) {
  const PanelCut cut(scan.queries_count);
  const ChunkPlan plan(scan.tile.dim_padded);
  const int32_t row_panels = (scan.tile.rows_count + kPanelRows - 1) / kPanelRows;
  Fetcher fetcher(scan.upcoming, int64_t{cut.panels_count} * row_panels * kParts);
  Chunk chunk = {0, 0, scan.queries, scan.sums};
  while (chunk.panel_end < cut.panels_count) {
    chunk.panel_begin = chunk.panel_end;
    chunk.panel_end = std::min(cut.panels_count, chunk.panel_begin + plan.panels_a_chunk);
    for (int32_t first = 0; first < scan.tile.rows_count; first += kPanelRows) {
      if (scan.kind == SumKind::kProduct) {
        ScanRowPanel<SumKind::kProduct>(scan, cut, chunk, first, fetcher);
      } else {
        ScanRowPanel<SumKind::kSquaredDistance>(scan, cut, chunk, first, fetcher);
      }
    }
    for (int32_t panel = chunk.panel_begin; panel < chunk.panel_end; ++panel) {
      chunk.queries += int64_t{cut.width(panel)} * scan.tile.dim_padded;
      chunk.sums += int64_t{cut.width(panel)} * scan.sums_stride;
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace nearfield::cpu
HWY_AFTER_NAMESPACE();

#endif  // include guard per instruction set
