// CodeKernels: the arithmetic of a code scan, once per instruction set: products of codes, bounds
// computed from the products, and encoding (bound/int8_code.h).
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/bound/certified_bound.h"
#include "engine/bound/int8_code.h"
#include "engine/bound/query_encoder.h"
#include "engine/bound/rotation.h"
#include "nearfield/engine/types.h"

namespace nearfield::cpu {

// The int8 codes of a row are stored with 128 added, as unsigned bytes, because the instruction
// that multiplies bytes requires one unsigned factor. Rows are padded to whole cache lines; the
// value of the padding does not matter.
inline constexpr int32_t kCodeBias = 128;
using bound::CodeStride;
using bound::kCodeLine;

// Consecutive rows of a plane of codes, 64-byte aligned, CodeStride(dim) bytes apart.
struct CodeTile {
  const uint8_t* codes = nullptr;
  int32_t rows_count = 0;
  int32_t dim = 0;
  bool streamed = true;  // the rows come from memory and not from a core's cache
};

// Products may be written for whole groups of rows: outputs have room for rows_count rounded up to
// a multiple of this.
inline constexpr int32_t kCodeRowGroup = 16;

// Maximum number of panels that are scanned together.
inline constexpr int32_t kPanelsMax = 4;

// Input of filter_one: finds the rows that may reach the threshold, by both codes of one query.
struct OneFilter {
  const bound::RowBound* bounds = nullptr;  // [rows_count]
  const int32_t* first = nullptr;           // products, as written by scan_one
  const int32_t* second = nullptr;
  bound::QueryBound query;
  float threshold = 0;
  int32_t rows_count = 0;
};

// Input of filter_panels: finds the pairs of a row and a query that may reach the query's
// threshold, by the first code alone. All arrays over queries are [width].
struct PanelFilter {
  const bound::RowBound* bounds = nullptr;  // [rows_count]
  int32_t rows_count = 0;
  const int32_t* products = nullptr;  // [rows_count, width], as written by scan_panels
  int32_t width = 0;                  // queries of whole panels
  int32_t queries_count = 0;          // <= width; later columns are ignored
  const float* first_scale = nullptr;
  const float* of_residual = nullptr;
  const float* of_norm = nullptr;
  const float* squared_norm_lower = nullptr;
  const float* threshold = nullptr;
};

// A row of the tile that the query's bound does not rule out.
struct Survivor {
  int32_t row = 0;
  int32_t query = 0;
  float upper = 0;  // at least its score
};

// Rows to encode, in their stored form.
struct EncodeRows {
  const bound::Rotation* rotation = nullptr;
  int32_t dim = 0;
  Metric metric = Metric::kDot;
  RowType row_type = RowType::kFloat32;
  const std::byte* rows = nullptr;  // [rows_count, PaddedDim(dim)], as in RowTile
  int32_t rows_count = 0;
  const double* squares = nullptr;  // S(x,x) of each row
  uint8_t* codes = nullptr;         // out: [rows_count], CodeStride(dim) apart
  bound::RowBound* bounds = nullptr;
  double* scratch = nullptr;  // EncodeScratchDoubles(dim), 64-byte aligned
};
using bound::EncodeQueryArgs;
using bound::EncodeScratchDoubles;

// The codes of one query, [dim] each: `first` and `second`, or `whole`.
struct OneQueryCodes {
  const int8_t* first = nullptr;
  const int8_t* second = nullptr;
  const int16_t* whole = nullptr;
};

// The functions of one instruction set. Each defines its own layout of packed queries. Queries have
// two codes: panels use the first; the survivors are then bounded with both. An instruction set
// that multiplies words anyway bounds them with one code of 16 bits, of the whole query.
struct CodeKernels {
  int32_t lanes = 0;       // queries per panel
  int32_t panel_rows = 0;  // rows whose products with panels are filtered while they are in cache
  // The time of a query in panels, relative to a scan for one query. Measured at 200k x 384.
  double panel_query_time = 0;
  int64_t (*one_bytes)(int32_t dim) = nullptr;
  int64_t (*panel_bytes)(int32_t dim) = nullptr;
  // Returns the largest code of `whole`; 0: one query has two codes.
  int32_t (*whole_max)(int32_t dim) = nullptr;
  // Packs the codes of a query for scan_one.
  void (*pack_one)(const OneQueryCodes& codes, int32_t dim, std::byte* packed) = nullptr;
  // Packs the first codes of up to `lanes` queries, `stride` elements apart, for scan_panels.
  void (*pack_panel)(const int8_t* codes, int64_t stride, int32_t count, int32_t dim,
                     std::byte* packed) = nullptr;
  // Writes to first[r] and second[r] the products of row r with the query's two codes, or its
  // product with `whole` and 0.
  void (*scan_one)(const CodeTile& tile, const std::byte* packed, int32_t* first,
                   int32_t* second) = nullptr;
  // Call begin_panels on a thread before its calls of scan_panels, and end_panels after them: some
  // instruction sets have a state for each thread.
  void (*begin_panels)() = nullptr;
  void (*end_panels)() = nullptr;
  // Writes products[r * panels_count * lanes + q] for up to kPanelsMax consecutive panels.
  void (*scan_panels)(const CodeTile& tile, const std::byte* packed, int32_t panels_count,
                      int32_t* products) = nullptr;
  // Writes the rows with !(bound < threshold), ascending, and their bounds; returns their number.
  // Both outputs have room for rows_count.
  int32_t (*filter_one)(const OneFilter& filter, int32_t* surviving, float* upper) = nullptr;
  // Writes the pairs with !(bound < threshold); returns their number. Requires: room for
  // rows_count * queries_count.
  int32_t (*filter_panels)(const PanelFilter& filter, Survivor* survivors) = nullptr;
  void (*encode_rows)(const EncodeRows& encode) = nullptr;
  // Equivalent to bound::EncodeQueryPlain.
  bound::EncodeQueryFunction encode_query = nullptr;
};

// Returns the implementation in plain C++.
const CodeKernels& PortableCodeKernels();

}  // namespace nearfield::cpu
