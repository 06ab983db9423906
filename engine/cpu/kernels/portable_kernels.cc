// The row scan in plain C++: correct on every CPU, and the baseline for the vector kernels.
#include <algorithm>
#include <cstddef>

#include "engine/cpu/kernels/scan_kernels.h"
#include "engine/score/element.h"
#include "engine/score/score.h"

namespace nearfield::cpu {
namespace {

// Returns the sum over one row. If `query` is null, the row is also the other factor.
template <RowType kType>
double RowSum(const std::byte* row, int32_t dim_padded, SumKind kind, const double* query) {
  double sums[kDimStep] = {};
  double values[kDimStep];
  for (int32_t d = 0; d < dim_padded; d += kDimStep) {
    for (int32_t lane = 0; lane < kDimStep; ++lane) {
      const auto index = static_cast<size_t>(d) + static_cast<size_t>(lane);
      values[lane] = static_cast<double>(score::ElementAt(kType, row, index));
    }
    const double* other = query == nullptr ? values : query + d;
    if (kind == SumKind::kProduct) {
      for (int32_t lane = 0; lane < kDimStep; ++lane) {
        sums[lane] = score::DotStep(other[lane], values[lane], sums[lane]);
      }
    } else {
      for (int32_t lane = 0; lane < kDimStep; ++lane) {
        sums[lane] = score::L2Step(other[lane], values[lane], sums[lane]);
      }
    }
  }
  return score::ReduceAccumulators(sums);
}

template <RowType kType>
void TileSums(const RowTile& tile, SumKind kind, const double* query, double* sums) {
  const int64_t stride = static_cast<int64_t>(tile.dim_padded) * BytesPerElement(kType);
  for (int32_t r = 0; r < tile.rows_count; ++r) {
    sums[r] = RowSum<kType>(tile.rows + r * stride, tile.dim_padded, kind, query);
  }
}

void ScanOne(const RowTile& tile, SumKind kind, const double* query, double* sums) {
  switch (tile.row_type) {
    case RowType::kFloat32: return TileSums<RowType::kFloat32>(tile, kind, query, sums);
    case RowType::kFloat16: return TileSums<RowType::kFloat16>(tile, kind, query, sums);
    case RowType::kBFloat16: return TileSums<RowType::kBFloat16>(tile, kind, query, sums);
  }
}

void ScanListed(const ListedRows& listed, SumKind kind, const double* query, double* sums) {
  RowTile row = listed.plane;
  row.rows_count = 1;
  const int64_t stride = static_cast<int64_t>(row.dim_padded) * BytesPerElement(row.row_type);
  for (int32_t i = 0; i < listed.count; ++i) {
    row.rows = listed.plane.rows + listed.slots[i] * stride;
    ScanOne(row, kind, query, sums + i);
  }
}

void SquareRows(const RowTile& tile, double* out) {
  ScanOne(tile, SumKind::kProduct, nullptr, out);
}

void PackQueries(const float* queries, int32_t count, int32_t dim, double* packed) {
  const int32_t dim_padded = PaddedDim(dim);
  for (int32_t q = 0; q < count; ++q) {
    const float* query = queries + static_cast<int64_t>(q) * dim;
    double* out = packed + static_cast<int64_t>(q) * dim_padded;
    std::copy(query, query + dim, out);
    std::fill(out + dim, out + dim_padded, 0.0);
  }
}

int64_t ScratchDoubles(int32_t /*dim_padded*/) { return 0; }

void ScanGroup(const GroupScan& scan) {
  for (int32_t q = 0; q < scan.queries_count; ++q) {
    ScanOne(scan.tile, scan.kind, scan.queries + static_cast<int64_t>(q) * scan.tile.dim_padded,
            scan.sums + static_cast<int64_t>(q) * scan.sums_stride);
  }
}

// Under cosine a NaN score means a zero row, which scores -inf. It is kept, as !(score < min) is
// true.
int32_t Filter(const ScoreFilter& filter, int32_t* surviving) {
  int32_t count = 0;
  for (int32_t r = 0; r < filter.rows_count; ++r) {
    double value = filter.sums[r];
    if (filter.metric == Metric::kCosine) value /= filter.query_root * filter.row_roots[r];
    if (filter.metric == Metric::kL2) value = -value;
    surviving[count] = r;
    count += static_cast<float>(value) < filter.score_min ? 0 : 1;
  }
  return count;
}

}  // namespace

const ScanKernels& PortableScanKernels() {
  static const ScanKernels kKernels = {.name = "portable",
                                       .square_rows = SquareRows,
                                       .scan_one = ScanOne,
                                       .scan_listed = ScanListed,
                                       .pack_queries = PackQueries,
                                       .scratch_doubles = ScratchDoubles,
                                       .scan_group = ScanGroup,
                                       .filter = Filter,
                                       .codes = PortableCodeKernels()};
  return kKernels;
}

}  // namespace nearfield::cpu
