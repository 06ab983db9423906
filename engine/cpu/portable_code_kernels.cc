// The scan of codes in plain C++: right on every CPU. Codes of queries stay as they are.
#include <algorithm>
#include <cstring>
#include <vector>

#include "absl/types/span.h"
#include "engine/cpu/code_kernels.h"
#include "engine/cpu/scan_kernels.h"
#include "engine/score/row_types.h"

namespace nearfield::cpu {
namespace {

constexpr int32_t kLanes = 8;

int64_t OneBytes(int32_t dim) { return int64_t{2} * dim; }
int64_t PanelBytes(int32_t dim) { return int64_t{kLanes} * dim; }

void PackOne(const void* first, const void* second, int32_t dim, std::byte* packed) {
  std::memcpy(packed, first, static_cast<size_t>(dim));
  std::memcpy(packed + dim, second, static_cast<size_t>(dim));
}

void PackPanel(const void* first_codes, int64_t stride, int32_t count, int32_t dim,
               std::byte* packed) {
  const auto* const codes = static_cast<const int8_t*>(first_codes);
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

void ScanOne(const CodeTile& tile, const std::byte* packed, void* first_out, void* second_out) {
  auto* const first = static_cast<int32_t*>(first_out);
  auto* const second = static_cast<int32_t*>(second_out);
  for (int32_t r = 0; r < tile.rows_count; ++r) {
    const uint8_t* const row = tile.codes + int64_t{r} * CodeStride(tile.dim);
    first[r] = Product(row, packed, tile.dim);
    second[r] = Product(row, packed + tile.dim, tile.dim);
  }
}

void ScanPanels(const CodeTile& tile, const std::byte* packed, int32_t panels_count, void* out) {
  auto* products = static_cast<int32_t*>(out);
  for (int32_t r = 0; r < tile.rows_count; ++r) {
    const uint8_t* const row = tile.codes + int64_t{r} * CodeStride(tile.dim);
    for (int32_t q = 0; q < panels_count * kLanes; ++q) {
      *products++ = Product(row, packed + int64_t{q} * tile.dim, tile.dim);
    }
  }
}

// Products of row r as the filters read them.
struct Int8Products {
  using Product = int32_t;
  static float OfBoth(const OneFilter& filter, int32_t r) {
    return score::CodeProduct(filter.query, static_cast<const int32_t*>(filter.first)[r],
                              static_cast<const int32_t*>(filter.second)[r]);
  }
};
struct Bf16Products {
  using Product = float;
  static float OfBoth(const OneFilter& filter, int32_t r) {
    return score::CodeProduct(filter.query, static_cast<const float*>(filter.first)[r]);
  }
};

template <class Products>
int32_t FilterOne(const OneFilter& filter, int32_t* passed, float* upper) {
  int32_t count = 0;
  for (int32_t r = 0; r < filter.rows_count; ++r) {
    const float u = score::UpperScore(filter.bounds[r], filter.query, Products::OfBoth(filter, r));
    passed[count] = r;
    upper[count] = u;
    count += u < filter.threshold ? 0 : 1;
  }
  return count;
}

template <class Products>
int32_t FilterPanels(const PanelFilter& filter, Survivor* survivors) {
  int32_t count = 0;
  for (int32_t r = 0; r < filter.rows_count; ++r) {
    const auto* const products =
        static_cast<const typename Products::Product*>(filter.products) + int64_t{r} * filter.width;
    for (int32_t q = 0; q < filter.queries_count; ++q) {
      const score::QueryBound query = {.first_scale = filter.first_scale[q],
                                       .second_scale = 0,
                                       .of_residual = filter.of_residual[q],
                                       .of_norm = filter.of_norm[q],
                                       .less = filter.less[q]};
      const float u =
          score::UpperScore(filter.bounds[r], query, score::CodeProduct(query, products[q]));
      survivors[count] = {r, q, u};
      count += u < filter.threshold[q] ? 0 : 1;
    }
  }
  return count;
}

float Element(RowType type, const std::byte* row, int32_t index) {
  if (type == RowType::kFloat32) {
    float value;
    std::memcpy(&value, row + int64_t{index} * 4, sizeof(value));
    return value;
  }
  uint16_t bits;
  std::memcpy(&bits, row + int64_t{index} * 2, sizeof(bits));
  return type == RowType::kFloat16 ? score::FloatFromHalfBits(bits)
                                   : score::FloatFromBfloat16Bits(bits);
}

// Calls encode_one(row, codes) for each row, widened to fp32, and takes the bound it returns.
template <class EncodeOne>
void EncodeEach(const EncodeRows& encode, int32_t code_stride, const EncodeOne& encode_one) {
  const int64_t stride = int64_t{PaddedDim(encode.dim)} * BytesPerElement(encode.row_type);
  auto* const row = reinterpret_cast<float*>(encode.scratch);
  for (int32_t r = 0; r < encode.rows_count; ++r) {
    for (int32_t d = 0; d < encode.dim; ++d) {
      row[d] = Element(encode.row_type, encode.rows + r * stride, d);
    }
    encode.bounds[r] = encode_one(absl::MakeConstSpan(row, static_cast<size_t>(encode.dim)),
                                  encode.codes + int64_t{r} * code_stride);
  }
}

void EncodeInt8(const EncodeRows& encode) {
  EncodeEach(encode, CodeStride(encode.dim), [&](absl::Span<const float> row, uint8_t* codes) {
    const score::RowBound bound =
        corpus::EncodeRow(*encode.rotation, encode.metric, row,
                          absl::MakeSpan(reinterpret_cast<int8_t*>(codes), row.size()));
    for (size_t d = 0; d < row.size(); ++d) codes[d] ^= kCodeBias;  // adds it
    return bound;
  });
}

corpus::QueryBounds EncodeInt8Query(const EncodeQueryArgs& args) {
  const auto size = static_cast<size_t>(args.dim);
  return corpus::EncodeQuery(*args.rotation, args.metric, absl::MakeConstSpan(args.query, size),
                             absl::MakeSpan(static_cast<int8_t*>(args.first), size),
                             absl::MakeSpan(static_cast<int8_t*>(args.second), size));
}

// bf16 copies. Queries stay as they are.
int64_t Bf16OneBytes(int32_t dim) { return int64_t{4} * dim; }
int64_t Bf16PanelBytes(int32_t dim) { return int64_t{kLanes} * Bf16OneBytes(dim); }

void PackBf16One(const void* first, const void* /*second*/, int32_t dim, std::byte* packed) {
  std::memcpy(packed, first, static_cast<size_t>(Bf16OneBytes(dim)));
}

void PackBf16Panel(const void* queries, int64_t stride, int32_t count, int32_t dim,
                   std::byte* packed) {
  std::memset(packed, 0, static_cast<size_t>(Bf16PanelBytes(dim)));
  for (int32_t q = 0; q < count; ++q) {
    PackBf16One(static_cast<const float*>(queries) + q * stride, nullptr, dim,
                packed + int64_t{q} * Bf16OneBytes(dim));
  }
}

float Bf16Product(const uint8_t* row, const std::byte* query, int32_t dim) {
  const auto* const copy = reinterpret_cast<const uint16_t*>(row);
  const auto* const elements = reinterpret_cast<const float*>(query);
  float sum = 0;
  for (int32_t d = 0; d < dim; ++d) sum += score::FloatFromBfloat16Bits(copy[d]) * elements[d];
  return sum;
}

void ScanBf16One(const CodeTile& tile, const std::byte* packed, void* sums, void* /*second*/) {
  for (int32_t r = 0; r < tile.rows_count; ++r) {
    static_cast<float*>(sums)[r] =
        Bf16Product(tile.codes + int64_t{r} * Bf16Stride(tile.dim), packed, tile.dim);
  }
}

void ScanBf16Panels(const CodeTile& tile, const std::byte* packed, int32_t panels_count,
                    void* out) {
  auto* sums = static_cast<float*>(out);
  for (int32_t r = 0; r < tile.rows_count; ++r) {
    const uint8_t* const row = tile.codes + int64_t{r} * Bf16Stride(tile.dim);
    for (int32_t q = 0; q < panels_count * kLanes; ++q) {
      *sums++ = Bf16Product(row, packed + q * Bf16OneBytes(tile.dim), tile.dim);
    }
  }
}

void EncodeBf16(const EncodeRows& encode) {
  const int32_t code_stride = Bf16Stride(encode.dim);
  EncodeEach(encode, code_stride, [&](absl::Span<const float> row, uint8_t* codes) {
    auto* const copy = reinterpret_cast<uint16_t*>(codes);
    std::fill(copy + row.size(), copy + code_stride / 2, uint16_t{0});
    return corpus::EncodeBf16Row(encode.metric, row, absl::MakeSpan(copy, row.size()));
  });
}

corpus::QueryBounds EncodeBf16QueryBoth(const EncodeQueryArgs& args) {
  const auto size = static_cast<size_t>(args.dim);
  const score::QueryBound bound =
      corpus::EncodeBf16Query(args.metric, absl::MakeConstSpan(args.query, size),
                              absl::MakeSpan(static_cast<float*>(args.first), size));
  return {bound, bound};
}

}  // namespace

const CodeKernels& PortableCodeKernels() {
  static constexpr CodeKernels kKernels = {.lanes = kLanes,
                                           .one_bytes = OneBytes,
                                           .panel_bytes = PanelBytes,
                                           .pack_one = PackOne,
                                           .pack_panel = PackPanel,
                                           .scan_one = ScanOne,
                                           .scan_panels = ScanPanels,
                                           .filter_one = FilterOne<Int8Products>,
                                           .filter_panels = FilterPanels<Int8Products>,
                                           .encode_rows = EncodeInt8,
                                           .encode_query = EncodeInt8Query};
  return kKernels;
}

const CodeKernels& PortableBf16Kernels() {
  static constexpr CodeKernels kKernels = {.lanes = kLanes,
                                           .two_codes = false,
                                           .query_element_bytes = 4,
                                           .one_bytes = Bf16OneBytes,
                                           .panel_bytes = Bf16PanelBytes,
                                           .pack_one = PackBf16One,
                                           .pack_panel = PackBf16Panel,
                                           .scan_one = ScanBf16One,
                                           .scan_panels = ScanBf16Panels,
                                           .filter_one = FilterOne<Bf16Products>,
                                           .filter_panels = FilterPanels<Bf16Products>,
                                           .encode_rows = EncodeBf16,
                                           .encode_query = EncodeBf16QueryBoth};
  return kKernels;
}

}  // namespace nearfield::cpu
