// The names of scan precisions in tables, receipts and options.
#ifndef NEARFIELD_TESTS_BENCH_PRECISION_NAME_H_
#define NEARFIELD_TESTS_BENCH_PRECISION_NAME_H_

#include "nearfield/engine/types.h"

namespace nearfield::bench {

inline const char* Name(ScanPrecision precision) {
  return precision == ScanPrecision::kInt8 ? "int8" : "rows";
}

}  // namespace nearfield::bench

#endif  // NEARFIELD_TESTS_BENCH_PRECISION_NAME_H_
