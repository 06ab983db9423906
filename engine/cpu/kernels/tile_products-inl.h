// Exact products of many rows with many queries on the matrix unit of a core (AMX): tiles of 16
// rows times 64 codes, which are multiplied with 64 codes of 16 queries to 16 x 16 sums of int32.
// Panels have the layout of VnniStep: 16 words of a panel are one tile. Included once per
// instruction set.
#if defined(NEARFIELD_ENGINE_CPU_KERNELS_TILE_PRODUCTS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef NEARFIELD_ENGINE_CPU_KERNELS_TILE_PRODUCTS_INL_H_
#undef NEARFIELD_ENGINE_CPU_KERNELS_TILE_PRODUCTS_INL_H_
#else
#define NEARFIELD_ENGINE_CPU_KERNELS_TILE_PRODUCTS_INL_H_
#endif

#include "engine/cpu/kernels/code_products-inl.h"

HWY_BEFORE_NAMESPACE();
namespace nearfield::cpu {
namespace HWY_NAMESPACE {

#if HWY_TARGET == HWY_AVX3
inline constexpr int32_t kTileRows = 16;
inline constexpr int64_t kTileRowBytes = 64;
static_assert(kTileRowBytes == kCodeLine && kTileRowBytes == kVectorBytes);
// Rows that are prefetched ahead of those that are multiplied.
inline constexpr int64_t kTileRowsAhead = 64;

// The instructions are inline assembly for the reason given at VnniStep. Registers: sums in 0 to 3,
// rows in 4 and 5, queries in 6 and 7. The compiler uses none of them.
template <int kRegister>
HWY_INLINE void LoadTile(const void* rows, int64_t stride) {
  asm volatile("tileloadd (%0,%1,1), %%tmm%c2"
               :
               : "r"(rows), "r"(stride), "i"(kRegister)
               : "memory");
}
template <int kRegister>
HWY_INLINE void StoreTile(void* rows, int64_t stride) {
  asm volatile("tilestored %%tmm%c2, (%0,%1,1)"
               :
               : "r"(rows), "r"(stride), "i"(kRegister)
               : "memory");
}
// Adds products of unsigned and signed bytes to the sums, exactly.
template <int kSums, int kRows, int kQueries>
HWY_INLINE void MultiplyTiles() {
  asm volatile("tdpbusd %%tmm%c0, %%tmm%c1, %%tmm%c2" : : "i"(kQueries), "i"(kRows), "i"(kSums));
}

// Makes each of the eight registers a tile of 16 rows of 64 bytes, for the calling thread.
inline void BeginTiles() {
  struct alignas(64) Shape {
    uint8_t palette = 1;
    uint8_t start_row = 0;
    uint8_t reserved[14] = {};
    uint16_t row_bytes[16] = {};
    uint8_t rows[16] = {};
  } shape;
  std::fill(shape.row_bytes, shape.row_bytes + 8, uint16_t{kTileRowBytes});
  std::fill(shape.rows, shape.rows + 8, uint8_t{kTileRows});
  asm volatile("ldtilecfg %0" : : "m"(shape));
}
// Clears the registers, so that the system need not save them.
inline void EndTiles() { asm volatile("tilerelease" : : :); }

// Multiplies kRowTiles tiles of rows with kPanels panels. bias: the first value of the sums of each
// panel. products: of the first row and panel, rows `products_stride` bytes apart. Prefetches
// lines_ahead lines of later rows for each line of a row.
template <int32_t kRowTiles, int32_t kPanels>
HWY_INLINE void TileBlock(const uint8_t* row, int64_t stride, const std::byte* packed,
                          int64_t panel_bytes, const int32_t* bias, int32_t* products,
                          int64_t products_stride, int32_t lines_ahead) {
  constexpr int64_t kLanesAPanel = kLanes;
  LoadTile<0>(bias, 0);  // the same row 16 times
  if constexpr (kPanels == 2) LoadTile<1>(bias + kLanesAPanel, 0);
  if constexpr (kRowTiles == 2) LoadTile<2>(bias, 0);
  if constexpr (kRowTiles == 2 && kPanels == 2) LoadTile<3>(bias + kLanesAPanel, 0);
  const std::byte* query = packed + kHeadBytes;
  const uint8_t* ahead = row + kTileRowsAhead * stride;
  for (int64_t d = 0; d < stride; d += kTileRowBytes, query += kTileRows * kTileRowBytes) {
    LoadTile<4>(row + d, stride);
    LoadTile<6>(query, kTileRowBytes);
    MultiplyTiles<0, 4, 6>();
    if constexpr (kPanels == 2) {
      LoadTile<7>(query + panel_bytes, kTileRowBytes);
      MultiplyTiles<1, 4, 7>();
    }
    if constexpr (kRowTiles == 2) {
      LoadTile<5>(row + kTileRows * stride + d, stride);
      MultiplyTiles<2, 5, 6>();
      if constexpr (kPanels == 2) MultiplyTiles<3, 5, 7>();
    }
    for (int32_t line = 0; line < lines_ahead; ++line, ahead += kCodeLine) {
      __builtin_prefetch(ahead, 0, 2);
    }
  }
  auto* const out = reinterpret_cast<std::byte*>(products);
  StoreTile<0>(out, products_stride);
  if constexpr (kPanels == 2) StoreTile<1>(out + kTileRowBytes, products_stride);
  std::byte* const second = out + kTileRows * products_stride;
  if constexpr (kRowTiles == 2) StoreTile<2>(second, products_stride);
  if constexpr (kRowTiles == 2 && kPanels == 2)
    StoreTile<3>(second + kTileRowBytes, products_stride);
}

template <int32_t kRowTiles>
HWY_INLINE void TileRows(const uint8_t* row, int32_t dim, const std::byte* packed,
                         int32_t panels_count, const int32_t* bias, int32_t* products) {
  const int64_t stride = CodeStride(dim);
  const int64_t panel_bytes = PanelBytes<VnniStep>(dim);
  const int64_t products_stride = panels_count * kTileRowBytes;
  for (int32_t p = 0; p < panels_count; p += 2) {
    const std::byte* const panel = packed + p * panel_bytes;
    int32_t* const out = products + p * kLanes;
    const int32_t* const at = bias + p * kLanes;
    const int32_t ahead = p == 0 ? kRowTiles * kTileRows : 0;
    if (p + 1 < panels_count) {
      TileBlock<kRowTiles, 2>(row, stride, panel, panel_bytes, at, out, products_stride, ahead);
    } else {
      TileBlock<kRowTiles, 1>(row, stride, panel, panel_bytes, at, out, products_stride, ahead);
    }
  }
}

void ScanPanelsInTiles(const CodeTile& tile, const std::byte* packed, int32_t panels_count,
                       int32_t* products) {
  HWY_ALIGN int32_t bias[kPanelsMax * kLanes];
  for (int32_t p = 0; p < panels_count; ++p) {
    const auto* const head =
        reinterpret_cast<const int32_t*>(packed + p * PanelBytes<VnniStep>(tile.dim));
    hn::Store(hn::Neg(hn::Load(kTag32, head)), kTag32, bias + p * kLanes);
  }
  const int64_t stride = CodeStride(tile.dim);
  const int64_t width = int64_t{panels_count} * kLanes;
  int32_t r = 0;
  for (; r + 2 * kTileRows <= tile.rows_count; r += 2 * kTileRows) {
    TileRows<2>(tile.codes + r * stride, tile.dim, packed, panels_count, bias,
                products + r * width);
  }
  if (r + kTileRows <= tile.rows_count) {
    TileRows<1>(tile.codes + r * stride, tile.dim, packed, panels_count, bias,
                products + r * width);
    r += kTileRows;
  }
  if (r == tile.rows_count) return;
  CodeTile rest = tile;
  rest.codes += r * stride;
  rest.rows_count -= r;
  ScanPanels<VnniStep>(rest, packed, panels_count, products + r * width);
}
#endif

}  // namespace HWY_NAMESPACE
}  // namespace nearfield::cpu
HWY_AFTER_NAMESPACE();

#endif  // include guard per instruction set
