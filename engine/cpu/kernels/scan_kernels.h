// ScanKernels: the arithmetic of the CPU scan, once per instruction set: sums S(q, x) and T(q, x)
// of score.h, bit for bit. Tests can list and use every instruction set of this build that the CPU
// supports.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/cpu/kernels/code_kernels.h"
#include "nearfield/engine/types.h"

namespace nearfield::cpu {

// Rows and queries are padded with zeros to a multiple of this, the accumulators of score.h.
inline constexpr int32_t kDimStep = 32;
// Rows of a tile are processed in groups of this size. Outputs of a tile have room for a whole last
// group.
inline constexpr int32_t kRowGroup = 8;

// The term that is summed over the dimensions: q*x (dot, cosine) or (q-x)^2 (L2).
enum class SumKind : uint8_t { kProduct, kSquaredDistance };

// Consecutive stored rows, 64-byte aligned, [rows_count, dim_padded].
struct RowTile {
  const std::byte* rows = nullptr;
  int32_t rows_count = 0;
  int32_t dim_padded = 0;
  RowType row_type = RowType::kFloat32;
};

// Rows at arbitrary slots of a plane, in any order.
struct ListedRows {
  RowTile plane;  // all rows
  const uint32_t* slots = nullptr;
  int32_t count = 0;
};

// Memory that the caller expects to need next; a kernel prefetches it while it computes.
struct Upcoming {
  const std::byte* data = nullptr;
  int64_t bytes = 0;
};

// One tile of rows against a group of packed queries.
struct GroupScan {
  RowTile tile;
  SumKind kind = SumKind::kProduct;
  const double* queries = nullptr;  // as written by pack_queries, 64-byte aligned
  int32_t queries_count = 0;
  double* scratch = nullptr;  // scratch_doubles(dim_padded), 64-byte aligned
  double* sums = nullptr;     // out: [queries_count][sums_stride]
  int32_t sums_stride = 0;    // >= rows_count rounded up to kRowGroup
  Upcoming upcoming;
};

// Input of filter(), which finds the rows of a tile that may reach score_min. Rows that cannot are
// left out; doubtful rows are kept.
struct ScoreFilter {
  Metric metric = Metric::kDot;
  const double* sums = nullptr;       // [rows_count], readable to the next multiple of kRowGroup
  const double* row_roots = nullptr;  // cosine: sqrt(S(x,x)), same extent
  double query_root = 0;              // cosine: sqrt(S(q,q))
  float score_min = 0;
  int32_t rows_count = 0;
};

// The functions of one instruction set. All require what score.h requires: round to nearest,
// denormals kept.
struct ScanKernels {
  const char* name = nullptr;
  // Writes out[r] = S(row r, row r). `out` has room for rows_count rounded up to kRowGroup.
  void (*square_rows)(const RowTile& tile, double* out) = nullptr;
  // Writes sums[r] for one query ([dim_padded] fp64). `sums` has the same room as `out` above.
  void (*scan_one)(const RowTile& tile, SumKind kind, const double* query, double* sums) = nullptr;
  // The same for rows at arbitrary slots.
  void (*scan_listed)(const ListedRows& rows, SumKind kind, const double* query,
                      double* sums) = nullptr;
  // Packs [count, dim] fp32 as count * dim_padded fp64 in this instruction set's own layout.
  void (*pack_queries)(const float* queries, int32_t count, int32_t dim, double* packed) = nullptr;
  // Returns the number of doubles that scan_group needs as scratch memory.
  int64_t (*scratch_doubles)(int32_t dim_padded) = nullptr;
  void (*scan_group)(const GroupScan& scan) = nullptr;
  // Writes the indexes of the rows that pass, ascending, and returns their number.
  int32_t (*filter)(const ScoreFilter& filter, int32_t* surviving) = nullptr;
  CodeKernels codes;
};

// Returns the kernels that this CPU supports, fastest first; the last is the portable fallback.
const std::vector<const ScanKernels*>& SupportedScanKernels();

// Returns kernels in plain C++ for a CPU without the vector instructions.
const ScanKernels& PortableScanKernels();

constexpr int32_t PaddedDim(int32_t dim) { return (dim + kDimStep - 1) / kDimStep * kDimStep; }

}  // namespace nearfield::cpu
