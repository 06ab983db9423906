// The code scan in plain C++, for every CPU. Query codes keep their layout.
#include <cstring>

#include "absl/types/span.h"
#include "engine/cpu/kernels/code_kernels.h"
#include "engine/cpu/kernels/scan_kernels.h"
#include "engine/score/element.h"

namespace nearfield::cpu {
namespace {

constexpr int32_t kLanes = 8;

int64_t OneBytes(int32_t dim) { return int64_t{2} * dim; }
int64_t PanelBytes(int32_t dim) { return int64_t{kLanes} * dim; }

void PackOne(const OneQueryCodes& codes, int32_t dim, std::byte* packed) {
  std::memcpy(packed, codes.first, static_cast<size_t>(dim));
  std::memcpy(packed + dim, codes.second, static_cast<size_t>(dim));
}

void PackPanel(const int8_t* codes, int64_t stride, int32_t count, int32_t dim, std::byte* packed) {
  std::memset(packed, 0, static_cast<size_t>(PanelBytes(dim)));
  for (int32_t q = 0; q < count; ++q) {
    std::memcpy(packed + int64_t{q} * dim, codes + q * stride, static_cast<size_t>(dim));
  }
}

int32_t Product(const uint8_t* row, const std::byte* query, int32_t dim) {
  const auto* codes = reinterpret_cast<const int8_t*>(query);
  int32_t sum = 0;
  for (int32_t d = 0; d < dim; ++d) sum += (int32_t{row[d]} - kCodeBias) * codes[d];
  return sum;
}

void ScanOne(const CodeTile& tile, const std::byte* packed, int32_t* first, int32_t* second) {
  for (int32_t r = 0; r < tile.rows_count; ++r) {
    const uint8_t* const row = tile.codes + int64_t{r} * CodeStride(tile.dim);
    first[r] = Product(row, packed, tile.dim);
    second[r] = Product(row, packed + tile.dim, tile.dim);
  }
}

void ScanPanels(const CodeTile& tile, const std::byte* packed, int32_t panels_count,
                int32_t* products) {
  for (int32_t r = 0; r < tile.rows_count; ++r) {
    const uint8_t* const row = tile.codes + int64_t{r} * CodeStride(tile.dim);
    for (int32_t q = 0; q < panels_count * kLanes; ++q) {
      *products++ = Product(row, packed + int64_t{q} * tile.dim, tile.dim);
    }
  }
}

int32_t FilterOne(const OneFilter& filter, int32_t* surviving, float* upper) {
  int32_t count = 0;
  for (int32_t r = 0; r < filter.rows_count; ++r) {
    const float u =
        bound::UpperScore(filter.bounds[r], filter.query,
                          bound::CodeProduct(filter.query, filter.first[r], filter.second[r]));
    surviving[count] = r;
    upper[count] = u;
    count += u < filter.threshold ? 0 : 1;
  }
  return count;
}

int32_t FilterPanels(const PanelFilter& filter, Survivor* survivors) {
  int32_t count = 0;
  for (int32_t r = 0; r < filter.rows_count; ++r) {
    const int32_t* const products = filter.products + int64_t{r} * filter.width;
    for (int32_t q = 0; q < filter.queries_count; ++q) {
      const bound::QueryBound query = {.first_scale = filter.first_scale[q],
                                       .second_scale = 0,
                                       .of_residual = filter.of_residual[q],
                                       .of_norm = filter.of_norm[q],
                                       .squared_norm_lower = filter.squared_norm_lower[q]};
      const float u =
          bound::UpperScore(filter.bounds[r], query, bound::CodeProduct(query, products[q]));
      survivors[count] = {r, q, u};
      count += u < filter.threshold[q] ? 0 : 1;
    }
  }
  return count;
}

void EncodeEach(const EncodeRows& encode) {
  const int64_t stride = int64_t{PaddedDim(encode.dim)} * BytesPerElement(encode.row_type);
  auto* const row = reinterpret_cast<float*>(encode.scratch);
  for (int32_t r = 0; r < encode.rows_count; ++r) {
    for (int32_t d = 0; d < encode.dim; ++d) {
      row[d] = score::ElementAt(encode.row_type, encode.rows + r * stride, static_cast<size_t>(d));
    }
    uint8_t* const codes = encode.codes + int64_t{r} * CodeStride(encode.dim);
    const auto size = static_cast<size_t>(encode.dim);
    encode.bounds[r] =
        bound::EncodeRow(*encode.rotation, encode.metric, absl::MakeConstSpan(row, size),
                         absl::MakeSpan(reinterpret_cast<int8_t*>(codes), size));
    for (int32_t d = 0; d < encode.dim; ++d) codes[d] ^= kCodeBias;  // adds the bias
  }
}

}  // namespace

const CodeKernels& PortableCodeKernels() {
  static constexpr CodeKernels kKernels = {.lanes = kLanes,
                                           .panel_rows = 24,
                                           .panel_query_time = 0.5,
                                           .one_bytes = OneBytes,
                                           .panel_bytes = PanelBytes,
                                           .whole_max = [](int32_t /*dim*/) { return 0; },
                                           .pack_one = PackOne,
                                           .pack_panel = PackPanel,
                                           .scan_one = ScanOne,
                                           .begin_panels = [] {},
                                           .end_panels = [] {},
                                           .scan_panels = ScanPanels,
                                           .filter_one = FilterOne,
                                           .filter_panels = FilterPanels,
                                           .encode_rows = EncodeEach,
                                           .encode_query = bound::EncodeQueryPlain};
  return kKernels;
}

}  // namespace nearfield::cpu
