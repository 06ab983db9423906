// The arithmetic of a scan of codes, once per instruction set: their products, the bounds made of
// them, and the codes themselves (corpus/scan_code.h).
#ifndef NEARFIELD_ENGINE_CPU_CODE_KERNELS_H_
#define NEARFIELD_ENGINE_CPU_CODE_KERNELS_H_

#include <cstddef>
#include <cstdint>

#include "engine/corpus/rotation.h"
#include "engine/corpus/scan_code.h"
#include "engine/score/certified_bound.h"
#include "nearfield/engine/types.h"

namespace nearfield::cpu {

// A row's int8 codes lie in its plane with 128 added, as unsigned bytes: the instruction that
// multiplies bytes wants one factor unsigned. Rows are padded to whole cache lines, with anything.
inline constexpr int32_t kCodeLine = 64;
inline constexpr int32_t kCodeBias = 128;
constexpr int32_t CodeStride(int32_t dim) { return (dim + kCodeLine - 1) / kCodeLine * kCodeLine; }

// Consecutive rows of a plane of codes, 64-byte aligned, CodeStride(dim) bytes apart.
struct CodeTile {
  const uint8_t* codes = nullptr;
  int32_t rows_count = 0;
  int32_t dim = 0;
};

// Products may be written for whole groups of rows: outputs have room for rows_count rounded up to
// this.
inline constexpr int32_t kCodeRowGroup = 16;

// Panels are scanned together up to this many.
inline constexpr int32_t kPanelsMax = 4;

// Which rows may reach the threshold, by both codes of one query.
struct OneFilter {
  const score::RowBound* bounds = nullptr;  // [rows_count]
  const int32_t* first = nullptr;           // products, as scan_one leaves them
  const int32_t* second = nullptr;
  score::QueryBound query;
  float threshold = 0;
  int32_t rows_count = 0;
};

// Which pairs of a row and a query may reach the query's threshold, by the first code alone. All
// arrays of queries are [width].
struct PanelFilter {
  const score::RowBound* bounds = nullptr;  // [rows_count]
  int32_t rows_count = 0;
  const int32_t* products = nullptr;  // [rows_count, width], as scan_panels leaves them
  int32_t width = 0;                  // of whole panels
  int32_t queries_count = 0;          // <= width: those beyond are left out
  const float* first_scale = nullptr;
  const float* of_residual = nullptr;
  const float* of_norm = nullptr;
  const float* less = nullptr;
  const float* threshold = nullptr;
};

// A row of the tile that a query cannot rule out.
struct Survivor {
  int32_t row = 0;
  int32_t query = 0;
  float upper = 0;  // at least its score
};

// Rows to encode, from where they are stored.
struct EncodeRows {
  const corpus::Rotation* rotation = nullptr;
  int32_t dim = 0;
  Metric metric = Metric::kDot;
  RowType row_type = RowType::kFloat32;
  const std::byte* rows = nullptr;  // [rows_count, PaddedDim(dim)], as in RowTile
  int32_t rows_count = 0;
  const double* squares = nullptr;  // S(x,x) of each
  uint8_t* codes = nullptr;         // out: [rows_count], CodeStride(dim) apart
  score::RowBound* bounds = nullptr;
  double* scratch = nullptr;  // EncodeScratchDoubles(dim), 64-byte aligned
};
constexpr int64_t EncodeScratchDoubles(int32_t dim) { return int64_t{3} * CodeStride(dim); }

// A query to encode.
struct EncodeQueryArgs {
  const corpus::Rotation* rotation = nullptr;
  int32_t dim = 0;
  Metric metric = Metric::kDot;
  const float* query = nullptr;  // [dim]
  int8_t* first = nullptr;       // out: codes, [dim]
  int8_t* second = nullptr;      // out: codes, [dim]
  double* scratch = nullptr;     // EncodeScratchDoubles(dim), 64-byte aligned
};

// Functions of one instruction set. Layouts of packed queries are its own. Queries have two codes:
// panels take the first, and what that leaves is bounded by both.
struct CodeKernels {
  int32_t lanes = 0;  // queries of a panel
  int64_t (*one_bytes)(int32_t dim) = nullptr;
  int64_t (*panel_bytes)(int32_t dim) = nullptr;
  // Both codes of a query, [dim] each, for scan_one.
  void (*pack_one)(const int8_t* first, const int8_t* second, int32_t dim,
                   std::byte* packed) = nullptr;
  // First codes of up to `lanes` queries, `stride` elements apart, for scan_panels.
  void (*pack_panel)(const int8_t* codes, int64_t stride, int32_t count, int32_t dim,
                     std::byte* packed) = nullptr;
  // first[r], second[r]: products of row r with the query's two codes.
  void (*scan_one)(const CodeTile& tile, const std::byte* packed, int32_t* first,
                   int32_t* second) = nullptr;
  // products[r * panels_count * lanes + q] for consecutive panels, up to kPanelsMax.
  void (*scan_panels)(const CodeTile& tile, const std::byte* packed, int32_t panels_count,
                      int32_t* products) = nullptr;
  // Rows with !(bound < threshold), ascending, and their bounds; returns how many. Room for
  // rows_count in both.
  int32_t (*filter_one)(const OneFilter& filter, int32_t* passed, float* upper) = nullptr;
  // Pairs with !(bound < threshold); returns how many. Room for rows_count * queries_count.
  int32_t (*filter_panels)(const PanelFilter& filter, Survivor* survivors) = nullptr;
  void (*encode_rows)(const EncodeRows& encode) = nullptr;
  // As corpus::EncodeQuery.
  corpus::QueryBounds (*encode_query)(const EncodeQueryArgs& args) = nullptr;
};

// Plain C++.
const CodeKernels& PortableCodeKernels();

}  // namespace nearfield::cpu

#endif  // NEARFIELD_ENGINE_CPU_CODE_KERNELS_H_
