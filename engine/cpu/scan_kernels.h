// The arithmetic of the CPU scan, once per instruction set: sums S(q, x) and T(q, x) of score.h,
// bit for bit. Every instruction set this build knows can be listed and used, so that tests reach
// all of them on one machine.
#ifndef NEARFIELD_ENGINE_CPU_SCAN_KERNELS_H_
#define NEARFIELD_ENGINE_CPU_SCAN_KERNELS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/cpu/code_kernels.h"
#include "nearfield/engine/types.h"

namespace nearfield::cpu {

// Rows and queries are padded with zeros to a multiple of this: the accumulators of score.h.
inline constexpr int32_t kDimStep = 32;
// Rows of a tile are processed in groups of this; a tile's outputs have room for a whole last
// group.
inline constexpr int32_t kRowGroup = 8;

// What is summed over the dimensions: q*x (dot, cosine) or (q-x)^2 (L2).
enum class SumKind : uint8_t { kProduct, kSquaredDistance };

// Consecutive stored rows, 64-byte aligned, [rows_count, dim_padded].
struct RowTile {
  const std::byte* rows = nullptr;
  int32_t rows_count = 0;
  int32_t dim_padded = 0;
  RowType row_type = RowType::kFloat32;
};

// Rows that lie anywhere in a plane, in any order.
struct ListedRows {
  RowTile plane;  // all rows
  const uint32_t* slots = nullptr;
  int32_t count = 0;
};

// Memory that the caller expects to need next, fetched into the cache while a kernel computes.
struct Upcoming {
  const std::byte* data = nullptr;
  int64_t bytes = 0;
};

// One tile of rows against a group of packed queries.
struct GroupScan {
  RowTile tile;
  SumKind kind = SumKind::kProduct;
  const double* queries = nullptr;  // as pack_queries left them, 64-byte aligned
  int32_t queries_count = 0;
  double* scratch = nullptr;  // scratch_doubles(dim_padded), 64-byte aligned
  double* sums = nullptr;     // out: [queries_count][sums_stride]
  int32_t sums_stride = 0;    // >= rows_count rounded up to kRowGroup
  Upcoming upcoming;
};

// Which rows of a tile may reach score_min. Rows beyond doubt are left out, doubtful ones kept.
struct ScoreFilter {
  Metric metric = Metric::kDot;
  const double* sums = nullptr;       // [rows_count], readable to the next multiple of kRowGroup
  const double* row_roots = nullptr;  // cosine: sqrt(S(x,x)), same extent
  double query_root = 0;              // cosine: sqrt(S(q,q))
  float score_min = 0;
  int32_t rows_count = 0;
};

// Functions of one instruction set. All require what score.h requires: round to nearest, denormals
// kept.
struct ScanKernels {
  const char* name = nullptr;
  // out[r] = S(row r, row r). `out` has room for rows_count rounded up to kRowGroup.
  void (*square_rows)(const RowTile& tile, double* out) = nullptr;
  // sums[r] for one query ([dim_padded] fp64). `sums` as `out` above.
  void (*scan_one)(const RowTile& tile, SumKind kind, const double* query, double* sums) = nullptr;
  // The same for rows that lie anywhere.
  void (*scan_listed)(const ListedRows& rows, SumKind kind, const double* query,
                      double* sums) = nullptr;
  // [count, dim] fp32 to count * dim_padded fp64 in this instruction set's own layout.
  void (*pack_queries)(const float* queries, int32_t count, int32_t dim, double* packed) = nullptr;
  // Scratch that scan_group needs.
  int64_t (*scratch_doubles)(int32_t dim_padded) = nullptr;
  void (*scan_group)(const GroupScan& scan) = nullptr;
  // Writes the indices of the rows that pass, ascending, and returns how many.
  int32_t (*filter)(const ScoreFilter& filter, int32_t* passed) = nullptr;
  CodeKernels codes;
};

// The fastest first; the last is the portable fallback that every CPU runs.
const std::vector<const ScanKernels*>& SupportedScanKernels();

// Plain C++ for a CPU without the vector instructions.
const ScanKernels& PortableScanKernels();

constexpr int32_t PaddedDim(int32_t dim) { return (dim + kDimStep - 1) / kDimStep * kDimStep; }

}  // namespace nearfield::cpu

#endif  // NEARFIELD_ENGINE_CPU_SCAN_KERNELS_H_
