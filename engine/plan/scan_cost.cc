#include "engine/plan/scan_cost.h"

#include <algorithm>

#include "engine/base/checked_math.h"

namespace nearfield::plan {
namespace {

// Measured with certified_bench on an H200: fixed costs of a search in microseconds, in addition to
// reading its bytes, and bytes per microsecond.
constexpr double kBytesPerUs = 4.4e6;
constexpr double kRowsFixed = 24.0;
constexpr double kRowsOfPass = 2.0;        // one launch
constexpr int64_t kRowsQueriesOfPass = 8;  // queries scored against a row while it is in registers
// With eight queries, the multiplications take longer than reading the bytes.
constexpr double kRowsBytesPerUsOfEight = 3.2e6;
constexpr double kCodesFixed = 32.0;
constexpr double kBatchFixed = 100.0;
constexpr double kBatchOfQuery = 1.2;
constexpr double kBatchBytesPerUs = 3.2e6;

double CodeBytes(const ScanWork& work) {
  return static_cast<double>(work.rows) * static_cast<double>(work.code_bytes);
}

double OneByOneTime(const ScanWork& work) {
  return static_cast<double>(work.queries) * (kCodesFixed + CodeBytes(work) / kBytesPerUs);
}

double BatchTime(const ScanWork& work) {
  const auto passes = static_cast<double>(CeilDiv(work.queries, work.queries_of_pass));
  return kBatchFixed + kBatchOfQuery * static_cast<double>(work.queries) +
         passes * CodeBytes(work) / kBatchBytesPerUs;
}

}  // namespace

double RowScanTime(const ScanWork& work) {
  const double bytes = static_cast<double>(work.rows) * static_cast<double>(work.row_bytes);
  if (work.queries == 1) return kRowsFixed + bytes / kBytesPerUs;
  const auto passes = static_cast<double>(CeilDiv(work.queries, kRowsQueriesOfPass));
  return kRowsFixed + passes * (kRowsOfPass + bytes / kRowsBytesPerUsOfEight);
}

double CodeScanTime(const ScanWork& work) { return std::min(OneByOneTime(work), BatchTime(work)); }

bool PrefersBatch(const ScanWork& work) { return BatchTime(work) < OneByOneTime(work); }

}  // namespace nearfield::plan
