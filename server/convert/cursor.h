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

// Returns a 64-bit hash that distinguishes searches with different orders. It covers the
// collection's incarnation, the vector or row id, the score threshold and the filter (its canonical
// bytes; empty: none). It does not cover k. It guards against mistakes, not against attacks: a
// forged cursor shows nothing that a search does not show.
uint64_t SearchFingerprint(uint64_t incarnation, const Query& query, std::string_view filter);

}  // namespace nearfield::server
