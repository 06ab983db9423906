// Catalogues as earlier versions wrote them.
#ifndef NEARFIELD_TESTS_SERVER_STORE_OLDER_CATALOGUE_H_
#define NEARFIELD_TESTS_SERVER_STORE_OLDER_CATALOGUE_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"

namespace nearfield::store {

// The stored number of a scan of a bf16 copy, which earlier versions had.
inline constexpr int64_t kStoredScanBf16 = 4;

// Stores `number` as the scan choice of every collection of the closed store in `dir`, with the
// digests that belong to it.
absl::Status SetStoredScan(const std::string& dir, int64_t number);

}  // namespace nearfield::store

#endif  // NEARFIELD_TESTS_SERVER_STORE_OLDER_CATALOGUE_H_
