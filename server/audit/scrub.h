// ScrubCollection: compares the rows in memory with those in the store, for one collection.
#pragma once

#include <atomic>
#include <cstdint>

#include "absl/status/status.h"
#include "server/audit/alarm.h"
#include "server/audit/pace.h"
#include "server/collections/catalog.h"

namespace nearfield::server {

// Totals since the start.
struct ScrubCounts {
  std::atomic<int64_t> passes{0};        // complete passes over all collections
  std::atomic<int64_t> rows{0};          // equal in memory and in the store
  std::atomic<int64_t> rows_skipped{0};  // changed during the comparison
  std::atomic<int64_t> bytes{0};         // compared
  std::atomic<int64_t> mismatches{0};
  std::atomic<int64_t> files_damaged{0};  // blocks in the store with a wrong checksum
};

struct ScrubTools {
  int64_t bytes_per_second = 0;
  Pace* pace = nullptr;
  Alarm* alarm = nullptr;
  ScrubCounts* counts = nullptr;
};

// Reads every live row of the collection from the store, block by block, and verifies the
// checksums. Fetches the row of each id through the engine and compares vectors and payloads.
// A row that differs or is missing raises the alarm only if its block still holds it as live in a
// view of the store taken after the fetch. Rows are never revived, so no commit can be the reason.
// Requires: a store keeps the collection.
// Errors: DataLoss (a damaged block in the store; names it), Cancelled (the pace has ended),
// Unavailable (device lost), NotFound (dropped meanwhile), and those of the store.
absl::Status ScrubCollection(const NamedCollection& named, const ScrubTools& tools);

}  // namespace nearfield::server
