// Decides whether a search reads codes or exact rows, where it may choose. Pure host functions; no
// CUDA.
#ifndef NEARFIELD_ENGINE_PLAN_SCAN_CHOICE_H_
#define NEARFIELD_ENGINE_PLAN_SCAN_CHOICE_H_

#include <cstdint>

namespace nearfield::plan {

struct ScanWork {
  int64_t rows = 0;
  int64_t row_bytes = 0;
  int64_t code_bytes = 0;  // of a row, its bound included
  int64_t queries = 0;
  int64_t queries_of_pass = 128;  // of a batch: as many as the codes are read for at once
};

// Microseconds that a search takes on an H200, about: good enough to compare the two.
double RowScanTime(const ScanWork& work);
double CodeScanTime(const ScanWork& work);

// Whether the queries of a scan of codes go together, or one after another.
bool PrefersBatch(const ScanWork& work);

inline bool PrefersCodes(const ScanWork& work) { return CodeScanTime(work) < RowScanTime(work); }

}  // namespace nearfield::plan

#endif  // NEARFIELD_ENGINE_PLAN_SCAN_CHOICE_H_
