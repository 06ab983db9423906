// Changes a catalog to what an earlier version would have written.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"

namespace nearfield::store {

// The number of a scan of a bf16 copy, which earlier versions had, in the store's own numbers, not
// those of ScanChoice.
inline constexpr int64_t kStoredScanBf16 = 4;

// Stores `number` as the scan choice of every collection of the closed store in `dir`, with the
// digests that belong to it.
absl::Status SetStoredScan(const std::string& dir, int64_t number);

}  // namespace nearfield::store
