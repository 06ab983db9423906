// Prints how many rows a GPU holds, from the accounting of the GPU backend, as the table of
// deploy/README.md. Needs no GPU.
#include <cstdint>
#include <cstdio>
#include <string>

#include "engine/gpu/memory/gpu_row_planes.h"

namespace nearfield::bench {
namespace {

struct Storage {
  const char* name;
  backend::RowFormat format;
};
constexpr Storage kStorages[] = {
    {"fp32", {.row_type = RowType::kFloat32, .scan = ScanPrecision::kInt8}},
    {"fp16", {.row_type = RowType::kFloat16, .scan = ScanPrecision::kInt8}},
    {"fp16, `--scan rows`", {.row_type = RowType::kFloat16, .scan = ScanPrecision::kRows}},
    {"`--rows host`", {.scan = ScanPrecision::kInt8, .rows = RowPlacement::kHost}},
    {"`--rows host --scan int16`",
     {.scan = ScanPrecision::kInt8, .second_codes = true, .rows = RowPlacement::kHost}}};
constexpr int32_t kDims[] = {384, 768, 1024, 1536};

// Memory for rows of one NVIDIA H200: 85% of what a process finds free, about 139 GiB.
constexpr int64_t kGiB = int64_t{1} << 30;
constexpr int64_t kRowsBytes = 139 * kGiB / 100 * 85;
constexpr int64_t kSlabBytes = int64_t{2} << 20;

// Returns the most rows of one commit that fit. Several commits differ by less than a slab each.
int64_t RowsOfCard(backend::RowFormat format) {
  int64_t fits = 0;
  for (int64_t step = int64_t{1} << 31; step > 0; step /= 2) {
    const int64_t rows = fits + step;
    if (rows > kRowsMax) continue;
    const int64_t bytes = gpu::GpuRowPlanes::DeviceBytesOf(
        {.device = kSlabBytes, .host_rows = kSlabBytes}, format, rows);
    if (bytes <= kRowsBytes) fits = rows;
  }
  return fits;
}

std::string Cell(int64_t rows) {
  const auto cards = [rows](int64_t wanted) { return std::to_string((wanted + rows - 1) / rows); };
  return std::to_string(rows / 1'000'000) + " M (" + cards(100'000'000) + ", " +
         cards(1'000'000'000) + ")";
}

void PrintTable() {
  std::printf("| rows |");
  for (const int32_t dim : kDims) std::printf(" %d dimensions |", dim);
  std::printf("\n| --- |");
  for ([[maybe_unused]] const int32_t dim : kDims) std::printf(" --- |");
  std::printf("\n");
  for (const Storage& storage : kStorages) {
    std::printf("| %s |", storage.name);
    for (const int32_t dim : kDims) {
      backend::RowFormat format = storage.format;
      format.dim = dim;
      std::printf(" %s |", Cell(RowsOfCard(format)).c_str());
    }
    std::printf("\n");
  }
}

}  // namespace
}  // namespace nearfield::bench

int main() {
  nearfield::bench::PrintTable();
  return 0;
}
