// Cursor: the position after a page. Clients carry it as opaque bytes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "nearfield/engine/engine.h"

namespace nearfield::server {

struct Cursor {
  uint64_t epoch = 0;
  int64_t position = 0;  // rows of the order before the next page
  uint64_t search_fingerprint = 0;
};

std::string EncodeCursor(const Cursor& cursor);
// Errors: InvalidArgument.
absl::StatusOr<Cursor> DecodeCursor(std::string_view bytes);

// The place in a scan after a reply. Its bytes are no search cursor, and a search cursor's are none
// of a scan.
struct ScanCursor {
  uint64_t epoch = 0;
  int64_t position = 0;  // rows of the scan up to `last`
  uint64_t scan_fingerprint = 0;
  Id last;  // the last row sent
};

std::string EncodeScanCursor(const ScanCursor& cursor);
// Errors: InvalidArgument; also if the id is not of type `id_type`.
absl::StatusOr<ScanCursor> DecodeScanCursor(std::string_view bytes, IdType id_type);

// Returns a 64-bit hash that distinguishes scans with different rows: the collection's incarnation
// and the filter (its canonical bytes; empty: none).
uint64_t ScanFingerprint(uint64_t incarnation, std::string_view filter);

// The rest of what the order of a search depends on.
struct SearchOrder {
  std::string_view filter;    // its canonical bytes; empty: none
  std::string_view terms;     // their canonical bytes; empty: none
  std::string_view group_by;  // the attribute of the groups; empty: none
};

// Returns a 64-bit hash that distinguishes searches with different orders. It covers the
// collection's incarnation, vector or row id, score threshold and `order`. It does not cover
// k. It guards against mistakes, not against attacks: a forged cursor shows nothing that a search
// does not show.
uint64_t SearchFingerprint(uint64_t incarnation, const Query& query, const SearchOrder& order);

}  // namespace nearfield::server
