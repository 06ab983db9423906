#include "engine/plan/scan_cost.h"

#include <algorithm>

#include "engine/base/checked_math.h"

namespace nearfield::plan {
namespace {

// Fixed costs of a search in microseconds, in addition to reading its bytes. Measured with
// certified_bench on an H200.
constexpr double kRowsFixed = 24.0;
constexpr double kRowsOfPass = 0.7;        // an estimate: searches correct it (path_costs.h)
constexpr int64_t kRowsQueriesOfPass = 8;  // queries scored against a row while it is in registers
// Scans of tiles: a key is written once and read twice.
constexpr int64_t kRowTileQueries = 64;
constexpr int64_t kRowTileQueriesMin = kRowTileQueries / 2;
constexpr int64_t kRowTileProductsMin = 200'000'000;
constexpr double kKeyBytesMoved = 24.0;
constexpr double kCodesFixed = 32.0;
constexpr double kBatchFixed = 60.0;
constexpr double kBatchOfQuery = 0.1;

// Bytes per clock of a multiprocessor, measured in the same way: of rows that are multiplied with
// eight queries, which takes longer there than to read them; and of codes that are multiplied with
// 128 queries.
constexpr double kRowBytesPerClock = 10.0;
// Elements of rows per clock of a multiprocessor that are multiplied with a query of a tile.
constexpr double kRowTileElementsPerClock = 58.0;
constexpr double kCodeBytesPerClockWgmma = 12.2;
constexpr double kCodeBytesPerClockMma = 8.5;
// Elements of rows per clock of a multiprocessor that are multiplied with 128 queries.
constexpr double kRowElementsPerClock = 2.0;
constexpr int64_t kRowBatchQueriesOfPass = 128;
// The part of a pass that does not depend on its queries.
constexpr double kRowBatchPassMin = 0.65;

double CodeBytes(const ScanWork& work) {
  return static_cast<double>(work.rows) * static_cast<double>(work.code_bytes);
}

double OneByOneTime(const ScanWork& work) {
  return static_cast<double>(work.queries) *
         (kCodesFixed + CodeBytes(work) / work.rates.read_bytes_per_us);
}

double RowTime(const ScanWork& work) {
  const double bytes = static_cast<double>(work.rows) * static_cast<double>(work.row_bytes);
  if (work.queries == 1) return kRowsFixed + bytes / work.rates.read_bytes_per_us;
  if (work.rates.row_tile_elements_per_us > 0 &&
      PrefersTiles(work.queries, work.rows, work.row_elements)) {
    const auto rows = static_cast<double>(work.rows);
    const auto queries = static_cast<double>(RoundUp(work.queries, kRowTileQueries));
    return kRowsFixed +
           queries * rows *
               (static_cast<double>(work.row_elements) / work.rates.row_tile_elements_per_us +
                kKeyBytesMoved / work.rates.read_bytes_per_us);
  }
  const auto passes = static_cast<double>(CeilDiv(work.queries, kRowsQueriesOfPass));
  return kRowsFixed + passes * (kRowsOfPass + bytes / work.rates.float_rows_bytes_per_us);
}

double RowBatchTime(const ScanWork& work) {
  const auto elements = static_cast<double>(work.rows) * static_cast<double>(work.row_elements);
  const int64_t full_passes = (work.queries - 1) / kRowBatchQueriesOfPass;
  const int64_t left = work.queries - full_passes * kRowBatchQueriesOfPass;
  const double last_pass = static_cast<double>(left) / static_cast<double>(kRowBatchQueriesOfPass);
  const double passes = static_cast<double>(full_passes) + std::max(kRowBatchPassMin, last_pass);
  return kBatchFixed + kBatchOfQuery * static_cast<double>(work.queries) +
         passes * elements / work.rates.row_elements_per_us;
}

double BatchTime(const ScanWork& work) {
  const auto passes = static_cast<double>(CeilDiv(work.queries, work.queries_of_pass));
  return kBatchFixed + kBatchOfQuery * static_cast<double>(work.queries) +
         passes * CodeBytes(work) / work.rates.code_bytes_per_us;
}

// Operations per clock of a multiprocessor, relative to compute capability 9.0. Source: CUDA C++
// Programming Guide, "Throughput of Native Arithmetic Instructions"; NVIDIA's white papers.
struct Throughput {
  double int8_products = 1.0;      // of mma instructions
  double double_multiplies = 1.0;  // exact scores are sums of doubles
};

Throughput ThroughputOf(int32_t capability) {
  if (capability == 80) return {.int8_products = 0.8, .double_multiplies = 0.5};
  const bool data_center = capability >= 90 && capability < 120;
  return data_center ? Throughput{} : Throughput{.int8_products = 0.4, .double_multiplies = 0.03};
}

}  // namespace

ScanRates RatesOf(const Device& device) {
  constexpr double kPerUs = 1e-6;
  constexpr double kReadH200 = 4.4e12;
  constexpr double kClocksH200 = 132 * 1.98e9;
  const auto known = [](double value, double of_h200) { return value > 0 ? value : of_h200; };
  const double read = known(device.read_bytes_per_second, kReadH200) * kPerUs;
  const double clocks = known(device.clocks_per_second, kClocksH200) * kPerUs;
  const Throughput throughput = ThroughputOf(device.capability);
  const double codes =
      device.wgmma ? kCodeBytesPerClockWgmma : kCodeBytesPerClockMma * throughput.int8_products;
  const double rows = kRowBytesPerClock * throughput.double_multiplies;
  return {.read_bytes_per_us = read,
          .float_rows_bytes_per_us = std::min(read, clocks * rows),
          .row_tile_elements_per_us =
              device.scans_tiles ? clocks * kRowTileElementsPerClock * throughput.double_multiplies
                                 : 0.0,
          .code_bytes_per_us = std::min(read, clocks * codes),
          .row_elements_per_us = clocks * kRowElementsPerClock * throughput.int8_products};
}

double ScanTime(ScanPath path, const ScanWork& work) {
  switch (path) {
    case ScanPath::kCodes: return PrefersBatch(work) ? BatchTime(work) : OneByOneTime(work);
    case ScanPath::kRows: return RowTime(work);
    case ScanPath::kRowBatch: break;
  }
  return RowBatchTime(work);
}

bool PrefersTiles(int64_t queries, int64_t rows, int64_t elements) {
  return queries >= kRowTileQueriesMin && rows * elements * queries >= kRowTileProductsMin;
}

bool PrefersBatch(const ScanWork& work) {
  return !work.one_by_one || BatchTime(work) < OneByOneTime(work);
}

}  // namespace nearfield::plan
