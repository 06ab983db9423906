// The names of scan precisions in tables, receipts and options.
#pragma once

#include "nearfield/engine/types.h"

namespace nearfield::bench {

inline const char* Name(ScanPrecision precision) {
  return precision == ScanPrecision::kInt8 ? "int8" : "rows";
}

}  // namespace nearfield::bench
