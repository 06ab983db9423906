// Predicts the time of a search on each of the paths that it can take. Pure host functions; no
// CUDA.
#pragma once

#include <cstdint>

namespace nearfield::plan {

// Rates of a device.
struct ScanRates {
  double read_bytes_per_us = 0;        // streaming loads
  double float_rows_bytes_per_us = 0;  // row bytes that are multiplied with eight queries
  // Elements of rows that are multiplied with one query of a tile (row_scan); 0: it has no tiles.
  double row_tile_elements_per_us = 0;
  double code_bytes_per_us = 0;    // code bytes that the tensor cores multiply with 128 queries
  double row_elements_per_us = 0;  // elements of rows that they multiply with 128 queries
};

struct Device {
  double read_bytes_per_second = 0;  // measured
  double clocks_per_second = 0;      // of all multiprocessors together
  int32_t capability = 0;            // 75 for 7.5
  bool wgmma = false;
  bool scans_tiles = false;  // it has the kernel that scores rows in tiles
};

// Returns the rates of a device: the measured one, and those of its multiprocessors according to
// measurements on an H200. A property that is 0, because the driver does not report it, is that of
// an H200.
ScanRates RatesOf(const Device& device);

struct ScanWork {
  int64_t rows = 0;
  int64_t row_bytes = 0;
  int64_t row_elements = 0;  // of a stored row, with its padding
  int64_t code_bytes = 0;    // of a row, including its bound
  int64_t queries = 0;
  int64_t queries_of_pass = 128;  // that share one read of the codes
  bool one_by_one = true;         // the device can search codes for one query
  ScanRates rates;
};

// The ways to search some rows.
enum class ScanPath : uint8_t {
  kCodes,     // reads codes
  kRows,      // scores every row canonically
  kRowBatch,  // bounds the scores of all rows on the tensor cores, for a batch of queries
};
inline constexpr int kScanPaths = 3;

// Returns the approximate time of a search in microseconds, accurate enough to compare the paths.
double ScanTime(ScanPath path, const ScanWork& work);

// Returns true if `queries` queries score `rows` rows of `elements` elements faster in tiles: there
// are enough to occupy the device.
bool PrefersTiles(int64_t queries, int64_t rows, int64_t elements);

// Returns true if the queries of a code scan should run as a batch, not one after another.
bool PrefersBatch(const ScanWork& work);

}  // namespace nearfield::plan
