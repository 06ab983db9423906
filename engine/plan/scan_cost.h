// Decides whether a search reads codes or exact rows, if it may choose. Pure host functions; no
// CUDA.
#pragma once

#include <cstdint>

namespace nearfield::plan {

struct ScanWork {
  int64_t rows = 0;
  int64_t row_bytes = 0;
  int64_t code_bytes = 0;  // of a row, including its bound
  int64_t queries = 0;
  int64_t queries_of_pass = 128;  // that share one read of the codes
};

// Return the approximate time of a search on an H200 in microseconds, accurate enough to compare
// the two.
double RowScanTime(const ScanWork& work);
double CodeScanTime(const ScanWork& work);

// Returns true if the queries of a code scan should run as a batch, not one after another.
bool PrefersBatch(const ScanWork& work);

inline bool PrefersCodes(const ScanWork& work) { return CodeScanTime(work) < RowScanTime(work); }

}  // namespace nearfield::plan
