// Where a page ended, as the bytes that clients carry.
#ifndef NEARFIELD_SERVER_CONVERT_CURSOR_H_
#define NEARFIELD_SERVER_CONVERT_CURSOR_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "nearfield/engine/engine.h"

namespace nearfield::server {

struct Cursor {
  uint64_t epoch = 0;
  int64_t position = 0;  // rows of the order before the next page
  uint64_t search = 0;   // SearchFingerprint of what is searched
};

std::string EncodeCursor(const Cursor& cursor);
// Errors: InvalidArgument.
absl::StatusOr<Cursor> DecodeCursor(std::string_view bytes);

// Tells searches apart whose orders differ: by the collection's incarnation, vector or row, minimum
// score, filter (its canonical bytes; empty: none). Not k. 64 bits against mistakes, not against
// malice: a forged cursor shows nothing that a search does not.
uint64_t SearchFingerprint(uint64_t incarnation, const Query& query, std::string_view filter);

}  // namespace nearfield::server

#endif  // NEARFIELD_SERVER_CONVERT_CURSOR_H_
